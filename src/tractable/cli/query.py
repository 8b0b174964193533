r"""`tractable query`: questions to a network in a file, answered exactly where that fits.

Questions.   $P(x_i \mid e)$ for some variables or all, $\log P(e)$, $\arg\max_x P(x, e)$, draws of
             $P(x \mid e)$.
Errors.      One line on the error stream: exit code 2 for a request that names what is not there, 1 for a
             malformed file, evidence of probability zero, or an answer that does not fit.
"""

import json
import math
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tractable._hints import nearest
from tractable.cli.paths import stop
from tractable.core.checks import ImpossibleEvidence
from tractable.graphs.answers import EXACT, Report
from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.bundled import NETWORKS, network
from tractable.graphs.files import FileError, RoundedTables, read, read_evidence
from tractable.graphs.markov_field import MarkovField
from tractable.messages.cost import BUDGET, Cost, TooLarge

__all__ = ["Request", "Result", "Source", "WrongRequest", "answer", "parse_evidence", "run_query"]

_BAR = 24


class WrongRequest(ValueError):
    """A question about a variable, a state or a file that is not there."""


class Request(NamedTuple):
    """What is asked of a network: names and states that it has."""

    targets: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = MappingProxyType({})
    mpe: bool = False
    samples: int = 0
    seed: int = 0
    explain: bool = False


class Actual(NamedTuple):
    """What the same question takes when it is asked again: nothing is loaded or compiled any more."""

    seconds: float
    peak_bytes: int


@dataclass
class Result:
    """The answers, how they were found, and what that cost."""

    log_evidence: float
    report: Report
    marginals: dict[str, dict[Any, float]] = field(default_factory=dict)
    errors: dict[str, dict[Any, float]] = field(default_factory=dict)
    mpe: tuple[dict[str, Any], float] | None = None
    samples: Any = None
    actual: Actual | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain containers, as `--json` prints them."""
        found: dict[str, Any] = {
            "marginals": {
                name: {str(s): p for s, p in each.items()} for name, each in self.marginals.items()
            },
            "log_evidence": self.log_evidence if math.isfinite(self.log_evidence) else None,
            "algorithm": self.report.algorithm,
            "exact": self.report.exact,
            "seconds": self.report.seconds,
        }
        if self.mpe is not None:
            found["mpe"] = {"assignment": self.mpe[0], "log_probability": self.mpe[1]}
        if self.samples is not None:
            found["samples"] = self.samples.to_dict(orient="list")
        if self.actual is not None and self.report.cost is not None:
            cost = self.report.cost
            predicted = {
                "seconds": cost.predicted_seconds, "bytes": cost.predicted_bytes, "cells": cost.num_cells,
            }  # fmt: skip
            actual = {"seconds": self.actual.seconds, "bytes": self.actual.peak_bytes}
            explained = {"verdict": self.report.verdict.sentence, "treewidth": cost.treewidth}
            found["explain"] = {**explained, "predicted": predicted, "actual": actual}
        return found


class Source(NamedTuple):
    """Where the network and what was observed come from, and where the answers to many cases go."""

    file: Path
    evidence: Sequence[str] = ()
    evidence_file: Path | None = None
    cases: Path | None = None
    out: Path | None = None


def run_query(
    source: Source,
    targets: Sequence[str],
    everything: bool,
    mpe: bool,
    samples: int,
    seed: int,
    explain: bool,
    as_json: bool,
) -> None:
    """Read, ask and print; what the user got wrong is one line and an exit code."""
    try:
        model = _read(source.file)
        observed = read_evidence(source.evidence_file, model) if source.evidence_file else {}
        observed |= parse_evidence(source.evidence, model.states)
        wanted = _wanted(targets, model, observed, everything or not (targets or mpe or samples))
        request = Request(wanted, observed, mpe, samples, seed, explain)
        if source.cases is not None:
            return _many(model, source.cases, source.out, request)
        result = answer(model, request)
    except (WrongRequest, OSError) as error:
        stop("query", _line(error), 2)
    except (FileError, ImpossibleEvidence, TooLarge) as error:
        stop("query", _line(error), 1)
    if as_json:
        typer.echo(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
    else:
        _print(result, observed)


def _many(model: BayesNet | MarkovField, cases: Path, out: Path | None, request: Request) -> None:
    """Answer the cases of a file; impossible ones are named, and the exit code is then 1."""
    from tractable.cli.cases import answer_cases, read_cases

    found = answer_cases(model, read_cases(cases, model.states, request.evidence), request)
    if out is None:
        typer.echo(found.text, nl=False)
    else:
        out.write_text(found.text, encoding="utf-8")
    for report in found.approximate:
        typer.echo(f"note: {report}", err=True)
    for sentence in found.impossible:
        typer.echo(f"tractable query: {sentence}", err=True)
    if found.impossible:
        raise typer.Exit(1)


def answer(model: BayesNet | MarkovField, request: Request) -> Result:
    """Answer a request: exactly where that fits, else marginals by an approximation that the report names."""
    result = _marginals(model, request) if request.targets else _evidence_alone(model, request.evidence)
    if request.explain and result.report.exact:
        result.actual = _measured(lambda: model.marginals(request.evidence, method="exact"))
    if request.mpe:
        result.mpe = model.mpe(request.evidence)
    if request.samples:
        import jax.random as jr

        draws = model.sample(jr.key(request.seed), request.samples, request.evidence)
        result.samples = draws[list(request.targets)] if request.targets else draws
    return result


def parse_evidence(texts: Iterable[str], states: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """`name=state` texts as evidence; both may hold `=` where only one reading names a variable."""
    found: dict[str, Any] = {}
    for text in texts:
        splits = [(text[:i], text[i + 1 :]) for i, character in enumerate(text) if character == "="]
        if not splits:
            raise WrongRequest(f"`--evidence` must be name=state; got {text!r}.")
        known = [(name, state) for name, state in splits if name in states]
        name, state = next(
            (pair for pair in known if pair[1] in map(str, states[pair[0]])), (known or splits)[0]
        )
        if name not in states:
            raise WrongRequest(f"`--evidence` must name a variable; got {name!r}. {nearest(name, states)}")
        labels = {str(label): label for label in states[name]}
        if state not in labels:
            listed = ", ".join(labels)
            raise WrongRequest(f"`--evidence` must give {name!r} one of its states: {listed}; got {state!r}.")
        if found.setdefault(name, labels[state]) != labels[state]:
            raise WrongRequest(
                f"`--evidence` must give {name!r} one state; got {found[name]!r} and {state!r}."
            )
    return found


def _marginals(model: BayesNet | MarkovField, request: Request) -> Result:
    """One calibration for all; where that does not fit, one target in the part of the network it needs."""
    import jax.random as jr

    key, evidence = jr.fold_in(jr.key(request.seed), 1), request.evidence
    fits = model.cost(evidence).fits(BUDGET)
    if not fits and isinstance(model, BayesNet) and len(request.targets) == 1:
        target = request.targets[0]
        table = model.query([target], evidence, key=key)
        probs = dict(zip(model.states[target], table.probs.tolist()))
        log_evidence = model.log_evidence(evidence) if table.report.exact else math.nan
        return Result(log_evidence, table.report, {target: probs})
    found = model.marginals(evidence, key=key)
    log_evidence = found.log_evidence
    if isinstance(model, MarkovField):
        log_evidence -= float(model.log_partition()) if found.exact else math.nan
    errors = {name: dict(found.errors[name]) for name in request.targets if name in found.errors}
    return Result(log_evidence, found.report, {name: dict(found[name]) for name in request.targets}, errors)


def _evidence_alone(model: BayesNet | MarkovField, evidence: Mapping[str, Any]) -> Result:
    began, cost = time.perf_counter(), model.cost(evidence)
    value = model.log_evidence(evidence)
    return Result(value, Report("junction tree", True, EXACT, time.perf_counter() - began, cost))


def _measured(call: Callable[[], Any]) -> Actual:
    """The time of a call, and in another the most memory that its arrays and objects take at once."""
    began = time.perf_counter()
    call()
    seconds = time.perf_counter() - began
    tracemalloc.start()
    try:
        call()
        return Actual(seconds, tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def _read(path: Path) -> BayesNet | MarkovField:
    if not path.exists() and str(path) in NETWORKS:
        return network(str(path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RoundedTables)
        model = read(path)
    for warning in caught:
        typer.echo(f"note: {warning.message}", err=True)
    return model


def _wanted(
    targets: Sequence[str], model: BayesNet | MarkovField, evidence: Mapping[str, Any], everything: bool
) -> tuple[str, ...]:
    for name in targets:
        if name not in model.states:
            raise WrongRequest(
                f"`--target` must name a variable; got {name!r}. {nearest(name, model.states)}"
            )
    return tuple(name for name in model.names if name not in evidence) if everything else tuple(targets)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _print(result: Result, evidence: Mapping[str, Any]) -> None:
    console = Console()
    given = ", ".join(f"{name}={state}" for name, state in evidence.items())
    if result.marginals:
        console.print(_marginal_table(result, given))
    if result.mpe is not None:
        console.print(_assignment_table(result.mpe[0], evidence))
        console.print(f"Its log-probability, with the evidence: {result.mpe[1]:.6f}.", highlight=False)
    if result.samples is None or result.marginals or result.mpe is not None:
        console.print(_sentence(result, given), soft_wrap=True, highlight=False)
    if result.actual is not None and result.report.cost is not None:
        console.print(_cost_table(result.report.cost, result.actual))
    if result.samples is not None:
        typer.echo(result.samples.to_csv(index=False), nl=False)


def _marginal_table(result: Result, given: str) -> Table:
    table = Table(title=f"P(variable{' | ' + escape(given) if given else ''})", title_justify="left")
    for column in ("variable", "state", "probability", ""):
        table.add_column(column, justify="right" if column == "probability" else "left")
    for name, states in result.marginals.items():
        for i, (state, p) in enumerate(states.items()):
            error = result.errors.get(name, {}).get(state)
            shown = f"{p:.6f}" if error is None else f"{p:.4f} ± {error:.4f}"
            table.add_row(escape(name) if i == 0 else "", escape(str(state)), shown, "█" * round(_BAR * p))
        table.add_section()
    return table


def _assignment_table(found: Mapping[str, Any], evidence: Mapping[str, Any]) -> Table:
    table = Table(title="Most probable joint state", title_justify="left")
    for column in ("variable", "state", ""):
        table.add_column(column)
    for name, state in found.items():
        table.add_row(escape(name), escape(str(state)), "observed" if name in evidence else "")
    return table


def _sentence(result: Result, given: str) -> str:
    how, value = str(result.report), result.log_evidence
    known = given and not math.isnan(value)
    return escape(f"log P({given}) = {value:.6f}, P = {math.exp(value):.6g}. {how}" if known else how)


def _cost_table(cost: Cost, actual: Actual) -> Table:
    table = Table(title=f"Cost, treewidth {cost.treewidth}", title_justify="left")
    for column in ("", "predicted", "actual"):
        table.add_column(column, justify="right" if column else "left")
    table.add_row("seconds", f"{cost.predicted_seconds:.2g}", f"{actual.seconds:.2g}")
    table.add_row("megabytes", f"{cost.predicted_bytes / 1e6:.3g}", f"{actual.peak_bytes / 1e6:.3g}")
    table.add_row("cells of tables", f"{cost.num_cells:,.0f}", "")
    return table
