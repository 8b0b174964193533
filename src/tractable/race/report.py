"""The report of a raced table: one page that a manager can read, with its pictures inside.

Order.       The verdict; the question; what to know; the models; promises kept (coverage overall, by level of
             the prediction, by group); calibration; deferral; what matters; effects; residuals; the worst
             rows; the data and what was done to them; how to use the model.
Bytes.       Nothing of the clock is in it, and nothing that a file does not keep: the report of a model from
             its file is the report of the fit that wrote it, byte for byte.
Cost.        Some nine pictures, each once.
"""

import html
from pathlib import Path
from typing import Any

import numpy as np

from tractable.plots.page import html_table, verdict_box, write_page
from tractable.race.measures import told
from tractable.race.report_pictures import pictures_of
from tractable.race.result import TableFit
from tractable.race.study_words import warnings_of

__all__ = ["write_report"]

_MOST_COLUMNS = 80
_NOTHING = {
    False: "Nothing in the residuals is more than chance allows.",
    True: "No stated probability is further off than chance allows.",
}
_MANY = 12  # lines of a table above which it is folded away
_TASKS = {
    "binary": "one of two classes", "classes": "one of several classes", "ordered": "one of ordered classes",
    "count": "a count", "positive": "a positive number", "proportion": "a proportion", "number": "a number",
    "censored": "a time, of which some ends were not seen",
}  # fmt: skip
_DONE = {
    "number": "used as it is; standardised for linear models",
    "count": "used as it is; standardised for linear models",
    "category": "one column for each level, rare ones together; levels never seen are handled",
    "ordered": "its levels in their order", "boolean": "0 and 1",
    "datetime": "calendar features", "text": "features of its words",
    "identifier": "left out: it names rows", "constant": "left out: it never changes",
}  # fmt: skip


def write_report(path: Path, fit: TableFit) -> None:
    """Write the page about `fit`."""
    drawn, seen = pictures_of(fit), bool(fit.study)
    rows = f"{fit.metrics['rows']} rows {'never used' if fit.untouched else 'held out in turn'}"
    parts = [
        verdict_box(fit.verdict), _question(fit), _list("Before you use it", warnings_of(fit)),
        "<h2>The models</h2>", _models(fit), drawn["leaderboard"],
        f"<h2>Promises kept: {rows}</h2>", _measures(fit), drawn.get("levels", ""),
        _coverage(fit) if seen else "", drawn.get("groups", ""),
        "<h2>Calibration</h2>" if seen else "", drawn.get("calibration", ""), drawn.get("outcomes", ""),
        "" if "residuals" in drawn else _checks(fit), _confusion(fit),
        "<h2>Leaving rows to a person</h2>" if "risk" in drawn else "", drawn.get("risk", ""),
        _doubt(fit),
        "<h2>What matters</h2>" if "importance" in drawn else "", drawn.get("importance", ""), _asked(fit),
        "<h2>Effects</h2>" if "effects" in drawn else "", drawn.get("effects", ""), _careful(drawn),
        f"<h2>Residuals</h2>{drawn['residuals']}{_checks(fit)}" if "residuals" in drawn else "",
        _worst(fit), _data(fit), _use(fit),
    ]  # fmt: skip
    write_page(Path(path), f"Predicting {fit.target}", parts)


def _text(value: Any) -> str:
    return html.escape(str(value))


def _number(value: float, digits: int = 4) -> str:
    return told(value, digits) if np.isfinite(value) else ""


def _list(title: str, lines: list[str]) -> str:
    if not lines:
        return ""
    return f"<h2>{title}</h2><ul>" + "".join(f"<li>{_text(line)}</li>" for line in lines) + "</ul>"


def _folded(title: str, inside: str, folded: bool) -> str:
    return f"<details{'' if folded else ' open'}><summary>{title}</summary>{inside}</details>"


def _question(fit: TableFit) -> str:
    kind, rows = _TASKS.get(fit.task, "a number"), fit.provenance["rows"]
    used = len(fit.model.columns) or len(fit.description.features)
    how = (
        "the winner was measured once on rows that nothing was chosen by, and then fitted to all rows."
        if fit.untouched
        else "there are too few rows to put a last part aside, so the same rows measured the winner."
    )
    return (
        f"<h2>The question</h2><p>What is <b>{_text(fit.target)}</b>, {kind}, where the other columns are "
        f"known? {rows} "
        f"rows have an answer; {used} columns are used. Every model was judged on rows that it had not "
        f"seen; {how}</p>"
    )


def _models(fit: TableFit) -> str:
    stated = any(np.isfinite(each.evidence) for each in fit.standings)
    noted = any(each.note for each in fit.standings)
    rows = [
        (_text(each.name), _number(each.log_score), _number(each.error, 2),
         _number(-each.difference, 3) if each.difference < 0 else "",
         _number(each.difference_error, 2) if each.difference < 0 else "",
         f"{each.weight:.2f}" if each.weight else "", *([_number(each.evidence)] if stated else []),
         *([_text(each.note)] if noted else []))
        for each in fit.standings
    ]  # fmt: skip
    more = (*(("evidence a row",) if stated else ()), *(("note",) if noted else ()))
    said = f"<p>{_text(fit.evidence_sentence)}</p>" if fit.evidence_sentence else ""
    return html_table(("model", "log-score", "error", "behind", "error", "weight", *more), rows) + (
        "<p>Log-scores are mean log-densities of what happened in rows held out, in nats: larger is better. "
        f"Differences are paired over rows; those within two errors cannot be told apart.</p>{said}"
    )


def _measures(fit: TableFit) -> str:
    said = {
        "log_score": "log-score", "crps": "CRPS", "rmse": "root mean squared error", "accuracy": "accuracy",
        "ece": "calibration error", "brier": "Brier score", "width_90": "mean width of 90 % intervals",
    }  # fmt: skip
    metrics = fit.metrics
    rows = [(said[name], _number(metrics[name])) for name in said if name in metrics]
    return html_table(("measure", "value"), [("rows", metrics["rows"]), *rows])


def _coverage(fit: TableFit) -> str:
    found = fit.study["coverage"]
    lines, odd = [], []
    for k, (column, level) in enumerate(zip(found["column"], found["level"])):
        cells = [f"{held:.0%} ± {2 * error:.0%}" for held, error in zip(found["held"][k], found["error"][k])]
        name = f"{column}: {level}" if column else "all rows"
        mark = {-1: "too few", 1: "too many"}.get(int(found["off"][k]), "")
        lines.append((_text(name), found["rows"][k], *cells, mark))
        odd.append(bool(mark))
    shares = [f"{share:.0%}" for share in found["promised"][0]]
    names = [name.replace(" ", "") for name in found["promises"]]
    promised = [] if shares == names else [["promised", "", *shares, ""]]
    head = ("rows where", "rows", *found["promises"], "")
    bad = [line for line, marked in zip(lines[1:], odd[1:]) if marked]
    first = html_table(head, [*promised, lines[0], *bad])
    said = fit.study["words"]["coverage"] or ["No group of rows is further off than chance allows."]
    groups = _folded(f"All {len(lines) - 1} groups", html_table(head, lines[1:]), len(lines) > _MANY)
    return first + "".join(f"<p>{_text(line)}</p>" for line in said) + (groups if lines[1:] else "")


def _confusion(fit: TableFit) -> str:
    table = fit.study.get("confusion")
    if table is None:
        return ""
    names = [_text(name) for name in fit.study["classes"]]
    rows = [(name, *(int(v) for v in line), int(line.sum())) for name, line in zip(names, table)]
    return "<h3>What was taken for what</h3>" + html_table(("it was (down), taken for", *names, "rows"), rows)


def _doubt(fit: TableFit) -> str:
    share = fit.study.get("doubt", np.nan)
    if not np.isfinite(share):
        return ""
    part = "entropy" if fit.model.classes else "variance"
    return (
        f"<p>Of the predictive {part} at least {share:.0%} is doubt about the model (epistemic: more rows "
        "would lessen it), as far as its members disagree and say so themselves; the rest is noise that the "
        "columns do not explain (aleatoric).</p>"
    )


def _asked(fit: TableFit) -> str:
    found = fit.study.get("importance")
    if not found or not found["column"]:
        return ""
    some = (
        f"; {len(found['column'])} of {found['asked']} columns"
        if found["asked"] > len(found["column"])
        else ""
    )
    where = "" if fit.untouched else " These rows were learnt from: the numbers are too large."
    return (
        f"<p>Of {found['rows']} rows, shuffled {found['repeats']} times{some}. Columns that say the same "
        "stand in for "
        f"each other: each alone then looks worth little.{where}</p>"
    )


def _careful(drawn: dict[str, str]) -> str:
    if "effects" not in drawn:
        return ""
    return (
        "<p>Effects are those of the prediction, not of an intervention: what goes together need not "
        "cause.</p>"
    )


def _checks(fit: TableFit) -> str:
    if not fit.study:
        return ""
    said = fit.study["words"]["residuals"] or [_NOTHING[bool(fit.model.classes)]]
    found, table = fit.study.get("residuals"), ""
    if found:
        rows = [
            ("above the middle (lean)", found["lean"]), ("too far out (narrow laws)", found["narrow"]),
            ("grow with the prediction", found["slope"]), ("spread grows with the prediction", found["fan"]),
        ]  # fmt: skip
        table = html_table(("residuals are", "in standard errors"), [(a, f"{b:.1f}") for a, b in rows])
    return table + "".join(f"<p>{_text(line)}</p>" for line in said)


def _worst(fit: TableFit) -> str:
    found = fit.study.get("worst")
    if not found or not found["lines"]:
        return ""
    rows = [[_text(cell) for cell in line] for line in found["lines"]]
    return "<h2>The worst-predicted rows</h2>" + html_table([_text(name) for name in found["head"]], rows)


def _data(fit: TableFit) -> str:
    columns, dropped = fit.description.columns, set(fit.description.dropped)
    rows = []
    for each in columns[:_MOST_COLUMNS]:
        done = (
            "the target"
            if each.name == fit.target
            else "put aside"
            if each.name in dropped
            else _DONE.get(each.kind, "")
        )
        gaps = "; gaps kept as information" if each.missing and each.name in fit.model.columns else ""
        note = f" ({each.note})" if each.note else ""
        rows.append((_text(each.name), each.kind, each.missing, each.distinct, _text(done + gaps + note)))
    more = f"<p>And {len(columns) - _MOST_COLUMNS} more.</p>" if len(columns) > _MOST_COLUMNS else ""
    table = html_table(("column", "kind", "missing", "distinct", "what was done"), rows) + more
    return "<h2>The data</h2>" + _folded(f"{len(columns)} columns", table, len(columns) > 2 * _MANY)


def _use(fit: TableFit) -> str:
    origin, ranges = fit.provenance, fit.study.get("ranges", {"column": []})
    versions = ", ".join(f"{name} {number}" for name, number in origin["versions"].items())
    ends = [
        f"{name} {told(low)} to {told(high)}"
        for name, low, high in zip(ranges["column"][:10], ranges.get("low", []), ranges.get("high", []))
    ]
    learnt = f"<p>It extrapolates beyond what it learnt from: {_text('; '.join(ends))}.</p>" if ends else ""
    return (
        "<h2>How to use the model</h2><pre>tractable predict model.tractable NEW.csv --defer 0.1 --out "
        "predictions.csv"
        "\n\nimport tractable as tr\nmodel = tr.race.TableFit.load('model.tractable')\n"
        "laws = model.predict_dist('NEW.csv')   # .mean, .interval(0.9), .log_density(y), .shares of "
        "classes</pre>"
        "<p>Rows unlike those of training are marked in the column <code>unlike</code>; <code>--defer "
        "0.1</code> marks "
        f"the tenth that is best left to a person.</p>{learnt}"
        f"<p>Seed {origin['seed']}; digest of the rows {origin['digest'][:16]}; {_text(versions)}.</p>"
    )
