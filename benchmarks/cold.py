"""`python -m benchmarks cold [FOLDER]`: CPU seconds from a fresh process to its first answer.

Each line is a process of its own whose caches (compiled programs of JAX and of numba) are new folders: what a
person waits for on a new machine. FOLDER holds BIF files (`alarm.bif`, ...) that are asked besides a
generated network of ALARM's size and one of twice that. All threads count, and imports too.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

PACKAGES = (
    "bijections", "core", "distributions", "estimators", "gp", "graphs", "inference", "kernels", "messages",
    "optim", "plots", "supervised",
)  # fmt: skip
ROWS = (
    "import numpy as np; g = np.random.default_rng(0); X = g.normal(size=(500, 10)); "
    "y = X[:, 0] + g.normal(size=500)"
)
NETWORK = (
    "from benchmarks._graphs_networks import as_bayes_net, build; "
    "as_bayes_net(build('random{num}', None)).marginals()"
)


def tasks(folder: str | None) -> dict[str, str]:
    """What is measured: a name and the program of a fresh process."""
    found = {f"from tractable.{name} import *": f"from tractable.{name} import *" for name in PACKAGES}
    found |= {f"all marginals, {num} variables": NETWORK.format(num=num) for num in (37, 74)}
    for path in sorted(Path(folder).glob("*.bif")) if folder else []:
        found[f"all marginals, {path.stem}"] = (
            f"from tractable.graphs import read; read({str(path)!r}).marginals()"
        )
    fits = {
        "forest": "ForestClassifier(random_state=0).fit(X, y > 0)",
        "robust": "RobustRegressor().fit(X, y)",
        "support vectors": "SupportVectorClassifier().fit(X, y > 0)",
        "Gaussian process": "GaussianProcessRegressor().fit(X[:200], y[:200])",
    }
    start = f"{ROWS}; import tractable.estimators as e; e."
    return found | {f"fit: {name}, 500 x 10": start + call for name, call in fits.items()}


def seconds_of(program: str) -> float:
    """CPU seconds of a process with empty caches; NaN where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"XDG_CACHE_HOME": folder, "NUMBA_CACHE_DIR": folder + "/numba"}
        environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")} | caches
        before = _children()
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        )
        if done.returncode != 0:
            print(done.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return _children() - before if done.returncode == 0 else float("nan")


def main(options: Sequence[str]) -> None:
    """Measure and print."""
    table = Table("first answer", "CPU seconds")
    for name, program in tasks(options[0] if options else None).items():
        table.add_row(name, f"{seconds_of(program):.2f}")
    Console().print(table)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
