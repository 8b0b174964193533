r"""`tractable query --cases`: many questions to one network, evidence from CSV and answers to CSV.

Cases.       One row each; a column is a variable, an empty cell is one that was not observed. Columns of
             other names, and states that a variable does not have, are errors that name the line.
Answers.     One row for each case, in order: its number, $\log P(e)$, and $P(x_i = s \mid e)$ in columns
             `variable=state`; or with `--mpe` the most probable joint state and its log-probability.
Impossible.  Evidence of probability zero has minus infinity and empty cells, and is named on the error
             stream; the other cases are answered all the same.
Cost.        That of one question per distinct case.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tractable._hints import nearest
from tractable.cli.query import Request, Result, WrongRequest, answer
from tractable.core.checks import ImpossibleEvidence
from tractable.core.progress import track
from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.markov_field import MarkovField

__all__ = ["Answers", "answer_cases", "read_cases"]

_ENCODING = "utf-8-sig"  # spreadsheets put a mark before the first column


class Answers(NamedTuple):
    """The text of the answers, the cases that are impossible, and how approximate ones were found."""

    text: str
    impossible: tuple[str, ...]
    approximate: tuple[str, ...]


def read_cases(
    path: Path, states: Mapping[str, Sequence[Any]], common: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The evidence of each row, with that which is common to all."""
    with path.open(encoding=_ENCODING, newline="") as file:
        rows = csv.reader(file, strict=True)
        try:
            columns = next(rows, [])
            _check_columns(path, columns, states)
            labels = {name: {str(state): state for state in states[name]} for name in columns}
            return [
                {**common, **_observed(f"{path}:{rows.line_num}", columns, row, labels, common)}
                for row in rows
                if row or len(columns) == 1  # a line with nothing is one empty cell, or no case at all
            ]
        except (csv.Error, UnicodeDecodeError) as error:
            raise WrongRequest(f"`--cases` must be CSV in UTF-8; got {str(path)!r}: {error}.") from error


def answer_cases(
    model: BayesNet | MarkovField, cases: Sequence[Mapping[str, Any]], request: Request
) -> Answers:
    """The answers to the request for the evidence of each case."""
    found: dict[tuple, list[str] | str] = {}
    reports: dict[str, None] = {}
    lines, impossible = [], []
    columns = _answer_columns(model, request)
    for number, evidence in enumerate(track(cases, label="Cases"), start=1):
        key = tuple(sorted((name, str(state)) for name, state in evidence.items()))
        if key not in found:
            try:
                result = answer(model, request._replace(evidence=evidence))
                found[key] = _cells(model, request, result)
                reports |= {} if result.report.exact else {str(result.report): None}
            except ImpossibleEvidence as error:
                found[key] = " ".join(str(error).split())
        cells = found[key]
        if isinstance(cells, str):
            impossible.append(f"case {number}: {cells}")
            cells = ["-inf", *[""] * (len(columns) - 2)]
        lines.append([str(number), *cells])
    return Answers(_text([columns, *lines]), tuple(impossible), tuple(reports))


def _check_columns(path: Path, columns: Sequence[str], states: Mapping[str, Sequence[Any]]) -> None:
    where = f"{path}:1: `--cases` must have"
    if not columns:
        raise WrongRequest(f"{where} a first line with names of variables; got nothing.")
    for name in columns:
        if name not in states:
            raise WrongRequest(f"{where} variables as columns; got {name!r}. {nearest(name, states)}")
        if columns.count(name) > 1:
            raise WrongRequest(f"{where} each variable once; got {name!r} twice.")


def _observed(
    where: str,
    columns: Sequence[str],
    row: Sequence[str],
    labels: Mapping[str, Mapping[str, Any]],
    common: Mapping[str, Any],
) -> dict[str, Any]:
    row = row or [""]
    if len(row) != len(columns):
        raise WrongRequest(f"{where}: `--cases` must have {len(columns)} cells in a row; got {len(row)}.")
    found = {}
    for name, cell in zip(columns, row):
        if cell == "":
            continue
        if cell not in labels[name]:
            listed = ", ".join(labels[name])
            raise WrongRequest(f"{where}: `--cases` must give {name!r} one of: {listed}; got {cell!r}.")
        if name in common and common[name] != labels[name][cell]:
            said = f"{common[name]} for all cases and {cell}"
            raise WrongRequest(f"{where}: `--cases` must give {name!r} one state; got {said}.")
        found[name] = labels[name][cell]
    return found


def _answer_columns(model: BayesNet | MarkovField, request: Request) -> list[str]:
    if request.mpe:
        return ["case", "log_probability", *model.names]
    return ["case", "log_evidence", *(f"{n}={s}" for n in request.targets for s in model.states[n])]


def _cells(model: BayesNet | MarkovField, request: Request, result: Result) -> list[str]:
    if result.mpe is not None:
        states, log_probability = result.mpe
        return [repr(float(log_probability)), *(str(states[name]) for name in model.names)]
    probs = (result.marginals[name][state] for name in request.targets for state in model.states[name])
    known = not math.isnan(result.log_evidence)  # an approximation may not have it
    return [repr(float(result.log_evidence)) if known else "", *(repr(float(p)) for p in probs)]


def _text(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
