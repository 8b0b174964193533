"""`tractable sample`: the posterior of a program in a file, with its verdict.

Output.      The table of the posterior, the verdict and what was done with each site; with `--out` the draws,
             with `--report` a page of HTML with pictures, with `--json` all of it as JSON.
"""

import importlib.util
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax.random as jr
from rich.console import Console

from tractable.cli.paths import stop
from tractable.cli.sample_program import Loaded, UserFault, arguments, load_program
from tractable.programs.infer import infer
from tractable.programs.interchange import labelled_names
from tractable.programs.posterior import ProgramPosterior
from tractable.tables.files import WrongTable
from tractable.tables.reading import read_table

__all__ = ["DRAWS", "Request", "as_json", "run_sample", "write_draws"]

DRAWS = (".parquet", ".csv", ".nc")  # kinds of files for draws
_RESUMES = ("nuts", "mams", "metropolis", "smc", "vi")  # methods that go on from a checkpoint


class Request(NamedTuple):
    """What the command line asks for."""

    file: Path
    data: Path | None
    model: str | None
    values: list[str]
    method: str
    num_draws: int | None
    seed: int
    out: Path | None
    report: Path | None
    resume: Path | None
    json: bool


def run_sample(request: Request) -> None:
    """Read, infer, print and write."""
    _check_possible(request)
    try:
        frame = None if request.data is None else read_table(request.data)
        loaded = load_program(request.file, request.model)
        given = arguments(loaded, request.file, frame, request.data, request.values)
        post = loaded.guarded(lambda: _inferred(request, loaded, given.values))
    except (WrongTable, UserFault) as error:
        stop("sample", error, 2)
    named = labelled_names(post, given.labels)
    if request.out is not None:
        write_draws(request.out, post, request.seed, named)
    if request.report is not None:
        from tractable.cli.sample_report import write_report

        title = f"{request.file.name}: {loaded.name}"
        write_report(request.report, title, post, request.seed, named)
    if request.json:
        print(json.dumps(as_json(post, loaded.name, request.seed, named), indent=2, allow_nan=False))
    else:
        _print(post, request, named)


def _check_possible(request: Request) -> None:
    """What can be known before any work."""
    if request.out is not None and request.out.suffix not in DRAWS:
        stop("sample", f"`--out` must end in {', '.join(DRAWS)}; got {str(request.out)!r}.", 2)
    if request.out is not None and request.out.suffix == ".nc" and not _has("arviz", "arviz_base"):
        stop("sample", "`--out` in NetCDF must have ArviZ; got none. Run `pip install tractable[arviz]`.", 2)
    if request.resume is not None and request.method not in _RESUMES:
        must = f"come with `--method` {', '.join(_RESUMES[:-1])} or {_RESUMES[-1]}"
        stop("sample", f"`--resume` must {must}, which can be resumed; got {request.method!r}.", 2)


def _has(*names: str) -> bool:
    return any(importlib.util.find_spec(name) is not None for name in names)


def _inferred(request: Request, loaded: Loaded, values: dict[str, Any]) -> ProgramPosterior:
    bound = loaded.model.bind(**values)
    options = {} if request.resume is None else {"checkpoint": str(request.resume)}
    return infer(
        bound, key=jr.key(request.seed), method=request.method, num_draws=request.num_draws, options=options,
        progress=not request.json,
    )  # fmt: skip


def write_draws(path: Path, post: ProgramPosterior, seed: int, named: dict[str, str]) -> None:
    """The draws: a column for each scalar in Parquet and CSV, all groups of ArviZ in NetCDF."""
    if path.suffix == ".nc":
        post.to_arviz(key=jr.key(seed)).to_netcdf(str(path))
        return
    frame = post.to_frame().rename(columns=named).reset_index()
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)


def as_json(post: ProgramPosterior, name: str, seed: int, named: dict[str, str]) -> dict[str, Any]:
    """The whole answer but the draws; numbers that are not finite are null."""
    table = post.summary()
    rows = [
        {
            "name": named.get(row, row),
            **{column: _finite(value) for column, value in zip(table.columns, values)},
        }
        for row, values in zip(table.index, table.to_numpy(float))
    ]
    explained, evidence = post.explain(), _evidence(post)
    return {
        "model": name,
        "seed": seed,
        "summary": rows,
        "verdict": {"ok": post.verdict.ok, "sentence": post.verdict.sentence},
        "log_evidence": evidence,
        "explanation": list(explained.sentences),
        "sites": [dict(zip(("site", "law", "shape", "what happened"), row)) for row in explained.rows],
        "unknowns": {"before": explained.before, "after": explained.after},
        "draws": list(next(iter(post.draws.values())).shape[:2]) if post.draws else [0, 0],
    }


def _evidence(post: ProgramPosterior) -> dict[str, Any] | None:
    """Where the method has one at no further cost."""
    if post.evidence is None:
        return None
    found = post.evidence
    return {"value": _finite(found.value), "standard_error": _finite(found.standard_error)}


def _print(post: ProgramPosterior, request: Request, named: dict[str, str]) -> None:
    console = Console(soft_wrap=True)

    def say(text: object) -> None:
        console.print(str(text), highlight=False, markup=False)

    say(repr(post.explain()))
    say("")
    # its last line is the verdict
    table = post.summary()
    table.index = [named.get(name, name) for name in table.index]
    say("\n".join(repr(table).splitlines()[:-1]))
    say(f"\n{'Verdict' if post.verdict.ok else 'Warning'}: {post.verdict.sentence}")
    if post.evidence is not None:
        say(f"Log-evidence: {post.evidence}")
    for name, path in (("Draws", request.out), ("Report", request.report), ("Checkpoint", request.resume)):
        if path is not None:
            say(f"{name}: {path}")


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
