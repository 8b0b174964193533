"""`python -m benchmarks neural [bayes|digits|loop|lstm|states|transformer]`: networks in CPU seconds.

Everything runs on one thread, each library in a process of its own. `digits` is the time to 97 % of the
bundled digits beside scikit-learn's perceptron, warm and from a fresh process with empty caches; `loop` is
the training loop beside one that is written and compiled by hand; `states` is the cost of state-space
layers by length and what they learn to copy; the others are sequence models.
"""

import argparse
import os
from collections.abc import Sequence

from benchmarks import _neural_digits, _neural_loop

__all__ = ["main"]

PARTS = ("bayes", "digits", "loop", "lstm", "states", "transformer")


def main(options: Sequence[str] = ()) -> None:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks neural", description=__doc__)
    parser.add_argument("part", nargs="?", choices=PARTS, help="one part alone")
    part = parser.parse_known_args(options)[0].part
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if part in (None, "bayes"):
        from benchmarks import _neural_bayes

        _neural_bayes.main()
    if part in (None, "digits"):
        _neural_digits.main()
    if part in (None, "loop"):
        _neural_loop.main()
    if part in (None, "states"):
        from benchmarks import _neural_state_space

        _neural_state_space.main()
    if part in (None, "lstm", "transformer"):
        from benchmarks import _neural_sequences

        _neural_sequences.main([part] if part else [])
