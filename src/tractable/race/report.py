"""The report of a raced table: one page that a manager can read, with its pictures inside.

Order.       The verdict; the question and the data; the models; what rows never used say (coverage overall,
             by group and by level of the prediction); pictures; what matters; the worst rows; warnings; how
             to use the model. A model from a file has the same report as the fit that wrote it, without the
             seconds.
Cost.        Some seven pictures, each once.
"""

import html
from pathlib import Path
from typing import Any

import numpy as np

from tractable.plots.page import html_table, verdict_box, write_page
from tractable.race.measures import LEVELS
from tractable.race.report_pictures import pictures
from tractable.race.result import TableFit

__all__ = ["warnings_of", "write_report"]

_MOST_COLUMNS = 80
_RARE = 20  # rows of a class
_OFF = 0.01  # of the probability of such a departure where the promise is kept


def write_report(path: Path, source: str, fit: TableFit) -> None:
    """Write the page about `fit` of the table called `source`."""
    parts = [
        verdict_box(fit.verdict),
        _question(source, fit),
        _warnings(fit),
        "<h2>The models</h2>",
        _models(fit),
        f"<h2>On {'rows never used' if fit.untouched else 'rows held out in turn'}</h2>",
        _measures(fit),
        _groups(fit),
        *pictures(fit),
        _worst(fit),
        _data(fit),
        _use(fit),
    ]
    write_page(Path(path), f"{fit.target} of {source}", parts)


def _text(value: Any) -> str:
    return html.escape(str(value))


def _question(source: str, fit: TableFit) -> str:
    said = {
        "binary": "two classes", "classes": f"{len(fit.model.classes)} classes", "ordered": "ordered classes",
        "count": "counts", "positive": "positive numbers", "proportion": "proportions",
        "censored": "times, of which some are censored",
    }.get(fit.task, "numbers")  # fmt: skip
    rows, used = fit.provenance["rows"], len(fit.model.columns) or len(fit.description.features)
    return (
        f"<p>The question: what is <b>{_text(fit.target)}</b> ({said}) in a row of {_text(source)}? "
        f"{rows} rows have an answer, {used} columns are used. Every model was judged on rows that it had "
        "not seen; the winner was measured once on rows that nothing was chosen by, then fitted to all.</p>"
    )


def warnings_of(fit: TableFit) -> list[str]:
    """What should be known before the model is used, in plain words."""
    found = [note.sentence for note in fit.notes]
    seen, metrics = fit.examination, fit.metrics
    if fit.provenance["cut_short"]:
        found.append("The race was ended early: some models were judged on fewer folds, or not at all.")
    for name, reason in fit.left_out.items():
        found.append(f"Not tried: {name} ({reason}).")
    if metrics["rows"] < 100:
        found.append(
            f"Only {metrics['rows']} rows measured the winner: shares are known to some points only."
        )
    for label, count in fit.provenance.get("class_rows", {}).items():
        if count < _RARE:
            found.append(f"Only {count} rows of the class {label!r}: its probabilities are uncertain.")
    if seen and seen["unlike"] > 0.05:
        found.append(f"{seen['unlike']:.0%} of the unused rows are unlike the others: it extrapolates there.")
    for column, level, rows, share, promised in _failures(fit):
        where = f"{column} is {level}" if column != "prediction" else f"the prediction is {level}"
        found.append(f"Where {where}, {share:.0%} of {rows} rows held, and {promised:.0%} were promised.")
    if seen and (seen.get("disagreement") or 0) > 0.3:
        found.append(
            f"{seen['disagreement']:.0%} of the variance is doubt about the model: more rows would help."
        )
    return found


def _failures(fit: TableFit) -> list[list[Any]]:
    """Groups whose share is improbably far below the promise."""
    from scipy.special import bdtr

    groups = (fit.examination or {}).get("groups", [])
    limit = _OFF / max(len(groups), 1)
    return [
        line
        for line in groups
        if line[3] < line[4] and bdtr(round(line[2] * line[3]), line[2], line[4]) < limit
    ]


def _warnings(fit: TableFit) -> str:
    found = warnings_of(fit)
    if not found:
        return ""
    return "<h2>To know</h2><ul>" + "".join(f"<li>{_text(line)}</li>" for line in found) + "</ul>"


def _number(value: float, digits: int = 4) -> str:
    return f"{value:.{digits}g}" if np.isfinite(value) else ""


def _models(fit: TableFit) -> str:
    rows = [
        (_text(each.name), _number(each.log_score), _number(each.error, 2),
         _number(-each.difference, 3) if each.difference < 0 else "",
         _number(each.difference_error, 2) if each.difference < 0 else "",
         f"{each.weight:.2f}" if each.weight else "", _text(each.note))
        for each in fit.standings
    ]  # fmt: skip
    head = ("model", "log-score", "error", "behind", "error", "weight", "")
    return html_table(head, rows) + (
        "<p>Log-scores are mean log-densities of what happened in rows held out, in nats: larger is better. "
        "Differences are paired over rows; those within two errors cannot be told apart.</p>"
    )


def _measures(fit: TableFit) -> str:
    metrics, parts = fit.metrics, []
    names = ("log_score", "crps", "rmse", "accuracy", "ece", "brier", "rank_distance")
    said = {
        "log_score": "log-score", "crps": "CRPS", "rmse": "root mean squared error", "accuracy": "accuracy",
        "ece": "calibration error", "brier": "Brier score", "rank_distance": "ranks: distance from uniform",
    }  # fmt: skip
    rows = [(said[name], _number(metrics[name])) for name in names if name in metrics]
    parts.append(html_table(("measure", "value"), [("rows", metrics["rows"]), *rows]))
    if "coverage_90" in metrics:
        lines = []
        for level in LEVELS:
            name = f"{100 * level:.0f}"
            error = np.sqrt(level * (1 - level) / metrics["rows"])
            share, width = metrics[f"coverage_{name}"], metrics[f"width_{name}"]
            lines.append((f"{level:.0%}", f"{share:.1%}", f"{2 * error:.1%}", _number(width)))
        parts.append(html_table(("interval", "holds", "give or take", "mean width"), lines))
    return "".join(parts)


def _groups(fit: TableFit) -> str:
    groups = (fit.examination or {}).get("groups", [])
    if not groups:
        return ""
    bad = {(line[0], line[1]) for line in _failures(fit)}
    rows = [
        (_text(f"{column}: {level}"), count, f"{share:.1%}", f"{promised:.1%}",
         "too few" if (column, level) in bad else "")
        for column, level, count, share, promised in groups
    ]  # fmt: skip
    what = "right" if "shares" in fit.examination else "inside"
    return "<h3>By group</h3>" + html_table(("rows where", "rows", what, "promised", ""), rows)


def _worst(fit: TableFit) -> str:
    seen = fit.examination
    if not seen or not len(seen["worst"]):
        return ""
    rows = []
    for row in seen["worst"]:
        if "shares" in seen:
            said = seen["shares"][row]
            actual, guess = fit.model.classes[int(seen["actual"][row])], fit.model.classes[int(said.argmax())]
            rows.append((_text(actual), _text(guess), _number(said.max(), 3), _number(seen["logs"][row], 3)))
        else:
            ends = f"{_number(seen['lower'][row])} to {_number(seen['upper'][row])}"
            actual, mean = _number(seen["actual"][row]), _number(seen["mean"][row])
            rows.append((actual, mean, ends, _number(seen["logs"][row], 3)))
    third = "its probability" if "shares" in seen else "90 % interval"
    return "<h2>The worst-predicted rows</h2>" + html_table(
        ("what happened", "prediction", third, "log-score"), rows
    )


def _data(fit: TableFit) -> str:
    columns = fit.description.columns
    rows = [
        (_text(each.name), each.kind, each.missing, each.distinct, _text(each.note or ""))
        for each in columns[:_MOST_COLUMNS]
    ]
    more = f"<p>And {len(columns) - _MOST_COLUMNS} more.</p>" if len(columns) > _MOST_COLUMNS else ""
    return "<h2>The columns</h2>" + html_table(("column", "kind", "missing", "distinct", ""), rows) + more


def _use(fit: TableFit) -> str:
    origin = fit.provenance
    versions = ", ".join(f"{name} {number}" for name, number in origin["versions"].items())
    return (
        "<h2>How to use the model</h2><pre>tractable predict model.tractable NEW.csv --defer 0.1 --out p.csv"
        "\n\nimport tractable as tr\nmodel = tr.race.TableFit.load('model.tractable')\n"
        "laws = model.predict_dist('NEW.csv')</pre>"
        f"<p>Seed {origin['seed']}; rows {origin['digest'][:16]}; {_text(versions)}.</p>"
    )
