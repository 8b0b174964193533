"""What the fuzzer does in its child process: change a file, a table or a command line, look at the answer.

Each case is made from a seed alone, so that one that fails can be repeated. A case ends in one of three ways:
`answered` (and the answer was checked), `refused` by an error of the library's own, or `fault` with a reason:
a traceback that is not the library's, or an answer that changed without a word.
"""

import contextlib
import csv
import io
import re
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._fuzz_changes import forged, mutated, mutated_words, odd_word
from benchmarks._fuzz_fits import fitted_file

__all__ = ["KINDS", "Outcome", "run_case"]

_OWN = re.compile(
    "`[^`]+` must |is not a file that|is damaged|is cut short|was not loaded|has format version"
    "|describes no object"
)
_TABLE = re.compile("is required by")  # scikit-learn's words for a table without rows


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
            own = _OWN.search(str(error)) or type(error).__module__.startswith("tractable")
            if own or (kind == "tables" and _TABLE.search(str(error))):
                return Outcome("refused")
            return Outcome("fault", "".join(traceback.format_exception(error)[-3:]))


# --- the kinds of cases --------------------------------------------------------------------------------


def _network_file(numbers: np.random.Generator, folder: Path) -> Outcome:
    """A network read from a changed file is the same network when it is written and read again."""
    from tractable.graphs import read, write

    suffix = (".bif", ".xmlbif", ".uai")[numbers.integers(3)]
    path = folder / f"net{suffix}"
    write(_network(numbers), path)
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
    if numbers.random() < 0.5:  # what a forged file says is another model, or none: that it ends well is all
        path.write_bytes(forged(numbers, path.read_bytes()))
        tr.load(path)
        return Outcome("answered")
    path.write_bytes(mutated(numbers, path.read_bytes()))
    found = tr.load(path)
    same = _close(model.predict_dist(rows).mean, found.predict_dist(rows).mean)
    return Outcome("answered") if same else Outcome("fault", "the loaded model answers otherwise")


def _checkpoint(numbers: np.random.Generator, folder: Path) -> Outcome:
    """A changed checkpoint is refused, or the run goes on with the draws that it would have made."""
    import jax.random as jr

    import tractable as tr

    path = folder / "run"
    way = forged if numbers.random() < 0.5 else mutated
    path.write_bytes(way(numbers, _checkpoint_bytes()))
    found = tr.mcmc(_density, 0.0, key=jr.key(0), num_draws=40, warmup=40, checkpoint=path, progress=False)
    same = way is forged or _close(found.draws, _checkpoint_draws())
    return Outcome("answered") if same else Outcome("fault", "the resumed run draws otherwise")


def _table(numbers: np.random.Generator, folder: Path) -> Outcome:
    """An estimator fitted to odd entries refuses them, or predicts what it predicts from the same floats."""
    import pandas as pd

    from tractable import estimators

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
    kinds: list[Any] = [kind for _, kind in estimators.all_estimators() if hasattr(kind, "predict")]
    kind = kinds[int(numbers.integers(len(kinds)))]
    target = (rows[: len(frame), 0] > 0).astype(int)
    made = {"random_state": 0} if "random_state" in kind().get_params() else {}
    found = kind(**made).fit(frame, target).predict(frame)
    if not np.isfinite(np.asarray(found, float)).all():
        return Outcome("fault", f"{kind.__name__} predicts {found}")
    plain = frame.astype(float).to_numpy()
    same = _close(found, kind(**made).fit(plain, target).predict(plain))
    return (
        Outcome("answered") if same else Outcome("fault", f"{kind.__name__} predicts otherwise from floats")
    )


_ROWS = (
    '1,2020-01-01,Köln,low,"1,234.5",12%,"a, b"\n2,2020-01-02,Ulm,high,2.5,5%,c\n'
    '3,,Köln,medium,,7%,"d ""e"" f"\n4,2020-02-01,,low,-3,8%,\n'
)


def _table_file(numbers: np.random.Generator, folder: Path) -> Outcome:
    """A table read from a changed file is described, and encoded to finite numbers that a saved encoder
    repeats."""
    from tractable.tables import TableEncoder, describe_table, read_table

    text = "id,when,town,size,price,share,note\n" + 3 * _ROWS
    encoding = ("utf-8", "latin-1", "utf-16")[numbers.integers(3)]
    text = text.replace(",", ",;\t"[numbers.integers(3)])
    path = folder / "table.csv"
    path.write_bytes(mutated(numbers, text.encode(encoding)))
    frame = read_table(path)
    target = str(frame.columns[-1])
    described = describe_table(frame, target=target)
    encoder = TableEncoder(described).fit(frame, frame[target])
    found = encoder.transform(frame)
    if not np.isfinite(found).all():
        return Outcome("fault", f"{path.read_bytes()!r}: encoded to numbers that are not finite")
    again = TableEncoder.from_state(encoder.state()).transform(frame)
    return Outcome("answered") if (again == found).all() else Outcome("fault", "the state encodes otherwise")


def _fitted_file(numbers: np.random.Generator, folder: Path) -> Outcome:
    """A changed table through `fit` and `predict`."""
    end, reason = fitted_file(numbers, folder)
    return Outcome(end, reason.replace(str(folder), ""))


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
    if numbers.random() < 0.1:
        chosen = ["demo", "--picture", str(folder / "none" / "x.png")]
    for _ in range(max(numbers.integers(-2, 3), 0)):
        chosen.insert(int(numbers.integers(len(chosen) + 1)), odd_word(numbers))
    with contextlib.redirect_stdout(io.StringIO()):
        found = CliRunner().invoke(app, chosen)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        return Outcome("fault", f"{chosen}: {found.exception!r}")
    said = bool(found.output.strip())
    ok = found.exit_code in (0, 1, 2) and said
    end = "answered" if found.exit_code == 0 else "refused"
    return Outcome(end) if ok else Outcome("fault", f"{chosen}: exit code {found.exit_code}, no word")


def _cases(numbers: np.random.Generator, folder: Path) -> Outcome:
    """Cases in CSV are answered with probabilities that sum to one, or refused in one line."""
    from typer.testing import CliRunner

    from tractable.cli.app import app

    path = folder / "cases.csv"
    text = "xray,smoking,asia,either,cancer\nyes,,,,\n,yes,no,,\nyes,no,yes,,no\n,,,no,yes\n"
    if numbers.random() < 0.5:
        path.write_bytes(mutated(numbers, text.encode()))
    else:
        path.write_text(mutated_words(numbers, text.replace(",", " , ")).replace(" , ", ","), "utf-8")
    found = CliRunner().invoke(app, ["query", "asia", "--cases", str(path), "-t", "cancer"])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        return Outcome("fault", f"{path.read_bytes()!r}: {found.exception!r}")
    if found.exit_code == 2:
        said = found.stderr.startswith("tractable query: ") and found.stderr.count("\n") == 1
        return Outcome("refused") if said else Outcome("fault", f"{path.read_bytes()!r}: {found.stderr}")
    for row in csv.DictReader(io.StringIO(found.stdout)):
        chances = [row["cancer=no"], row["cancer=yes"]]
        if chances != ["", ""] and abs(sum(map(float, chances)) - 1) > 1e-9:
            return Outcome("fault", f"{path.read_bytes()!r}: {row}")
    return Outcome("answered")


KINDS: dict[str, Callable[[np.random.Generator, Path], Outcome]] = {
    "network files": _network_file,
    "model files": _model_file,
    "checkpoints": _checkpoint,
    "tables": _table,
    "table files": _table_file,
    "fitted tables": _fitted_file,
    "command lines": _command,
    "files of cases": _cases,
}


# --- what cases share ----------------------------------------------------------------------------------

_kept: dict[str, Any] = {}


def _network(numbers: np.random.Generator) -> Any:
    """A published network, or a random one with zeros in its tables."""
    import jax.random as jr

    from tractable.datasets import network
    from tractable.graphs import random_network
    from tractable.graphs.bundled import NETWORKS

    names = list(NETWORKS)
    place = int(numbers.integers(len(names) + 2))
    if place < len(names):
        return network(names[place])
    return random_network(jr.key(int(numbers.integers(1000))), 5, zeros=0.2)


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
