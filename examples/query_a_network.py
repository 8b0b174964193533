"""A network in a file: read it, ask it, write it in another format, and see what a damaged file says."""

from pathlib import Path

import numpy as np

from tractable.graphs.files import FileError, read, write
from tractable.graphs.interchange import to_frames

CLINIC = """network clinic { }
variable smoke { type discrete [ 2 ] { yes, no }; }
variable cancer { type discrete [ 2 ] { yes, no }; }
variable oxygen { type discrete [ 3 ] { <5, 5-12, 12+ }; }  // labels need no quotes
probability ( smoke ) { table 0.3, 0.7; }
probability ( cancer | smoke ) {
  (yes) 0.05, 0.95;
  (no) 0.005, 0.995;
}
probability ( oxygen | smoke, cancer ) {
  (no, no) 0.02, 0.08, 0.9;
  (yes, no) 0.05, 0.25, 0.7;
  default 0.3, 0.4, 0.3;
}
"""


def main() -> None:
    Path("clinic.bif").write_text(CLINIC)
    net = read("clinic.bif")
    print(to_frames(net)["oxygen"], end="\n\n")

    evidence = {"oxygen": "<5"}
    print(net.marginals(evidence), end="\n\n")
    sick = 0.3 * 0.05 * 0.3 + 0.7 * 0.005 * 0.3
    seen = sick + 0.3 * 0.95 * 0.05 + 0.7 * 0.995 * 0.02
    assert np.isclose(net.marginals(evidence)["cancer"]["yes"], sick / seen)
    assert np.isclose(net.log_evidence(evidence), np.log(seen))

    for path in ("clinic.xmlbif", "clinic.bif.gz"):
        write(net, path)
        for name, table in read(path).tables.items():
            assert np.array_equal(table.probs, net.tables[name].probs)  # every digit is kept

    Path("damaged.bif").write_text(CLINIC.replace("0.25, 0.7;", "0.25, 0.8;"))
    line = None
    try:
        read("damaged.bif")
    except FileError as error:
        print(error)
        line = error.line
    assert line == 12


if __name__ == "__main__":
    main()
