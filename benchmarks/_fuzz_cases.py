"""What the fuzzer does in its child process: change a file, a table or a command line, look at the answer.

Each case is made from a seed alone, so that one that fails can be repeated. A case ends in one of three ways:
`answered` (and the answer was checked), `refused` by an error of the library's own, or `fault` with a reason:
a traceback that is not the library's, or an answer that changed without a word.
"""

import contextlib
import io
import re
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["KINDS", "Outcome", "run_case"]

_OWN = re.compile(
    "must |is not a file that|is damaged|is cut short|was not loaded|has format version|describes no object"
    "|is required by"  # scikit-learn's words for a table without rows
)
_ODD = [
    "",
    "nan",
    "-inf",
    "1e308",
    "-1",
    "0",
    "999999999999",
    "0x10",
    "é",
    "\x00",
    "{",
    "}",
    "|",
    "NaN",
    "1,5",
]


class Outcome(NamedTuple):
    """How a case ended, and why where it is a fault."""

    end: str  # "answered", "refused" or "fault"
    reason: str = ""


def run_case(kind: str, seed: int) -> Outcome:
    """Run one case; nothing that it raises gets out."""
    numbers = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return KINDS[kind](numbers, Path(folder))
        except Exception as error:
            if _OWN.search(str(error)) or type(error).__module__.startswith("tractable"):
                return Outcome("refused")
            return Outcome("fault", "".join(traceback.format_exception(error)[-3:]))


# --- mutations -----------------------------------------------------------------------------------------


def mutated(numbers: np.random.Generator, data: bytes) -> bytes:
    """One to four small changes: a bit, a cut, a copy, a swap, a truncation."""
    for _ in range(numbers.integers(1, 5)):
        size = max(len(data), 1)
        low, high = sorted(numbers.integers(0, size, 2))
        high = min(high, low + 64)
        way = numbers.integers(5)
        if way == 0 and data:
            changed = bytes([data[low] ^ (1 << numbers.integers(8))])
            data = data[:low] + changed + data[low + 1 :]
        elif way == 1:
            data = data[:low] + data[high:]
        elif way == 2:
            data = data[:high] + data[low:high] + data[high:]
        elif way == 3:
            data = data[:low]
        else:
            data = data[:low] + _odd(numbers).encode() + data[high:]
    return data


def mutated_words(numbers: np.random.Generator, text: str) -> str:
    """Whole words exchanged for odd ones or for each other: mistakes that parse."""
    words = re.split(r"(\s+)", text)
    for _ in range(numbers.integers(1, 4)):
        place = int(numbers.integers(len(words)))
        words[place] = _odd(numbers) if numbers.random() < 0.5 else words[int(numbers.integers(len(words)))]
    return "".join(words)


def _odd(numbers: np.random.Generator) -> str:
    return _ODD[int(numbers.integers(len(_ODD)))]


# --- the kinds of cases --------------------------------------------------------------------------------


def _network_file(numbers: np.random.Generator, folder: Path) -> Outcome:
    """A network read from a changed file is the same network when it is written and read again."""
    from tractable.graphs import read, write
    from tractable.graphs.example_networks import chest_clinic

    suffix = (".bif", ".xmlbif", ".uai")[numbers.integers(3)]
    path = folder / f"net{suffix}"
    write(chest_clinic(), path)
    if numbers.random() < 0.5:
        path.write_bytes(mutated(numbers, path.read_bytes()))
    else:
        path.write_text(mutated_words(numbers, path.read_text()))
    model = read(path)
    first = model.marginals({})
    again = folder / f"again{suffix}"
    write(model, again)
    second = read(again).marginals({})
    same = _close(list(first.values()), list(second.values()))
    return (
        Outcome("answered") if same else Outcome("fault", f"{path.name}: written and read, it answers anew")
    )


def _model_file(numbers: np.random.Generator, folder: Path) -> Outcome:
    """A changed file of a model is refused, or the model answers as before."""
    import tractable as tr
    from tractable.supervised import bayesian_linear

    rows = np.random.default_rng(0).normal(size=(30, 3))
    model = bayesian_linear(rows, rows @ [1.0, -2.0, 0.5])
    path = folder / "model"
    tr.save(path, model)
    path.write_bytes(mutated(numbers, path.read_bytes()))
    found = tr.load(path)
    same = _close(model.predict_dist(rows).mean, found.predict_dist(rows).mean)
    return Outcome("answered") if same else Outcome("fault", "the loaded model answers otherwise")


def _checkpoint(numbers: np.random.Generator, folder: Path) -> Outcome:
    """A changed checkpoint is refused, or the run goes on with the draws that it would have made."""
    import jax.random as jr

    import tractable as tr

    path = folder / "run"
    path.write_bytes(_checkpoint_bytes())
    path.write_bytes(mutated(numbers, path.read_bytes()))
    found = tr.mcmc(_density, 0.0, key=jr.key(0), num_draws=40, warmup=40, checkpoint=path, progress=False)
    same = _close(found.draws, _checkpoint_draws())
    return Outcome("answered") if same else Outcome("fault", "the resumed run draws otherwise")


def _table(numbers: np.random.Generator, folder: Path) -> Outcome:
    """An estimator fitted to odd entries refuses them, or predicts finite numbers."""
    import pandas as pd

    from tractable import estimators

    kinds = [estimators.BayesianLinearRegressor, estimators.LogisticClassifier, estimators.TreeRegressor]
    rows = numbers.normal(size=(24, 3))
    frame = pd.DataFrame(rows, columns=["a", "b", "c"]).astype(object)
    odd: list[Any] = [
        np.nan,
        np.inf,
        -np.inf,
        1e300,
        -1e-300,
        None,
        "text",
        True,
        10**400,
        "2020-01-01",
        1j,
        [],
    ]
    for _ in range(numbers.integers(1, 4)):
        frame.iloc[int(numbers.integers(24)), int(numbers.integers(3))] = odd[int(numbers.integers(len(odd)))]
    if numbers.random() < 0.2:
        frame = frame.iloc[: int(numbers.integers(3))]
    kind = kinds[int(numbers.integers(len(kinds)))]
    target = (rows[: len(frame), 0] > 0).astype(int)
    found = kind().fit(frame, target).predict(frame)
    finite = np.isfinite(np.asarray(found, float)).all()
    return Outcome("answered") if finite else Outcome("fault", f"{kind.__name__} predicts {found}")


def _command(numbers: np.random.Generator, folder: Path) -> Outcome:
    """A command line ends with code 0, or with 1 or 2 and a line that says why."""
    from typer.testing import CliRunner

    from tractable.cli.app import app
    from tractable.graphs import write
    from tractable.graphs.example_networks import sprinkler

    path = folder / "net.bif"
    write(sprinkler(), path)
    groups = [["--all"], ["--mpe"], ["-t", "rain"], ["-e", "rain=yes"], ["--samples", "3"], ["--json"]]
    groups += [["--explain"], ["--seed", "1"], ["--evidence-file", str(folder / "none")]]
    shares = [0.3] * (len(groups) - 1) + [0.05]
    chosen = ["query", str(path)]
    chosen += [word for group, share in zip(groups, shares) if numbers.random() < share for word in group]
    for _ in range(max(numbers.integers(-2, 3), 0)):
        chosen.insert(int(numbers.integers(len(chosen) + 1)), _odd(numbers))
    with contextlib.redirect_stdout(io.StringIO()):
        found = CliRunner().invoke(app, chosen)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        return Outcome("fault", f"{chosen}: {found.exception!r}")
    said = bool(found.output.strip())
    ok = found.exit_code in (0, 1, 2) and said
    end = "answered" if found.exit_code == 0 else "refused"
    return Outcome(end) if ok else Outcome("fault", f"{chosen}: exit code {found.exit_code}, no word")


KINDS: dict[str, Callable[[np.random.Generator, Path], Outcome]] = {
    "network files": _network_file,
    "model files": _model_file,
    "checkpoints": _checkpoint,
    "tables": _table,
    "command lines": _command,
}


# --- what cases share ----------------------------------------------------------------------------------

_kept: dict[str, Any] = {}


def _density(x):
    return -0.5 * x**2


def _checkpoint_bytes() -> bytes:
    """A checkpoint in the middle of a run, and the draws of the whole run."""
    if not _kept:
        import jax.random as jr

        import tractable as tr

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run"
            options: dict[str, Any] = {"key": jr.key(0), "warmup": 40, "progress": False, "seconds": 0.0}
            tr.mcmc(_density, 0.0, num_draws=20, checkpoint=path, **options)
            _kept["bytes"] = path.read_bytes()
            _kept["draws"] = tr.mcmc(_density, 0.0, num_draws=40, checkpoint=path, **options).draws
    return _kept["bytes"]


def _checkpoint_draws() -> Any:
    return _kept["draws"]


def _close(first: Any, second: Any) -> bool:
    """Equal up to printed digits, in whatever containers."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_close(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(_close, first, second))
    return bool(np.allclose(np.asarray(first, float), np.asarray(second, float), rtol=1e-6, equal_nan=True))
