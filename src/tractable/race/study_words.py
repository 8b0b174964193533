"""What a study says in plain words: which promises fail where, what residuals look like, what to be wary of.

Sentences are made of numbers whose departure is more than chance allows: exact binomial tails for shares
(`race.study_coverage`), three standard errors elsewhere.
"""

import re
from typing import Any

import numpy as np

from tractable.race.measures import told
from tractable.race.study_coverage import DOUBT, PREDICTION

__all__ = ["untried", "warnings_of", "words_of"]

_CLEAR = 3.0  # standard errors
_SECONDS = re.compile(r" \(\d+ s\)")
_RARE_CLASS = 20  # rows
_FEW = 100
_UNLIKE, _BEYOND, _DOUBTFUL = 0.05, 0.05, 0.3
_SURE = {"low": "most", "middle": "moderately", "high": "least"}
_ALONE = 0.95  # the share of all that columns are worth which makes one of them a suspect


def words_of(found: dict[str, Any], model: Any) -> dict[str, list[str]]:
    """Sentences by what they are about: coverage, residuals, and warnings."""
    residuals = _residuals(found["residuals"]) if "residuals" in found else _reliability(found)
    warnings = [*_extrapolations(found), *_suspect(found, model)]
    if np.isfinite(found["doubt"]) and found["doubt"] > _DOUBTFUL:
        part = "variance" if "residuals" in found else "entropy"
        warnings.append(
            f"{found['doubt']:.0%} of the predictive {part} is doubt about the model itself, not noise: "
            "more rows "
            "would help."
        )
    return {"coverage": _coverage(found["coverage"]), "residuals": residuals, "warnings": warnings}


def _where(column: str, level: str) -> str:
    if not column:
        return "Overall"
    if column == DOUBT:
        return f"Where the model is {_SURE[level]} sure"
    if column == PREDICTION:
        return f"Where the prediction is {level if level != 'middle' else 'in the middle'}"
    return f"Where {column} is {level}"


def _coverage(found: dict[str, Any]) -> list[str]:
    tested, said = found["tested"], []
    name = found["promises"][tested]
    for k, off in enumerate(found["off"].tolist()):
        if off == 0:
            continue
        held, promised = found["held"][k, tested], found["promised"][k, tested]
        of = f"of {found['rows'][k]} rows"
        where = _where(found["column"][k], found["level"][k])
        what = "the likeliest class is right in" if name == "likeliest" else f"the {name} intervals hold"
        kind = (
            ""
            if off < 0
            else ": they are wider than they need to be"
            if name != "likeliest"
            else ": it is too modest"
        )
        only = "only " if off < 0 else ""
        said.append(f"{where}, {what} {only}{held:.0%} {of}; {promised:.0%} were promised{kind}.")
    return said


def _residuals(found: dict[str, float]) -> list[str]:
    said = []
    if abs(found["lean"]) > _CLEAR:
        side = "above" if found["lean"] > 0 else "below"
        said.append(f"What happened lies {side} the middle of its law more often than half of the time.")
    if abs(found["narrow"]) > _CLEAR:
        said.append(f"On the whole the laws are too {'narrow' if found['narrow'] > 0 else 'wide'}.")
    error = np.sqrt(0.02 * 0.98 / found["size"])
    if found["outside"] - 0.02 > max(_CLEAR * error, 2.5 / found["size"]):
        said.append(f"Surprises are too frequent: {found['outside']:.1%} lie outside the 98 % intervals.")
    if abs(found["slope"]) > _CLEAR:
        side = "low" if found["slope"] > 0 else "high"
        said.append(f"Large predictions are too {side}: residuals go with the prediction.")
    if abs(found["fan"]) > _CLEAR:
        side = "narrow" if found["fan"] > 0 else "wide"
        said.append(f"Laws of large predictions are too {side} beside those of small ones.")
    return said


def _reliability(found: dict[str, Any]) -> list[str]:
    bins = found["reliability"]
    said = []
    for promised, seen, rows, error in zip(bins["said"], bins["seen"], bins["rows"], bins["error"]):
        if abs(seen - promised) > _CLEAR * max(error, 0.5 / rows):
            said.append(
                f"Of {rows} rows with a stated probability of about {promised:.0%}, {seen:.0%} came true."
            )
    table = found.get("confusion")
    for k, name in enumerate(found["classes"]):
        total = 0 if table is None else int(table[k].sum())
        if table is not None and total >= 10 and table[k, k] < 0.2 * total:
            said.append(
                f"The class {name!r} is hardly ever predicted: {table[k, k]} of its {total} rows were."
            )
    return said


def _extrapolations(found: dict[str, Any]) -> list[str]:
    said = []
    if found["unlike"] > _UNLIKE:
        said.append(f"{found['unlike']:.0%} of the rows it was measured on are unlike those it learnt from.")
    parts = found["ranges"]
    for name, low, high, beyond in zip(parts["column"], parts["low"], parts["high"], parts["beyond"]):
        if beyond > _BEYOND:
            said.append(
                f"It extrapolates beyond {name} = {told(low)} to {told(high)}, which it learnt from: "
                f"{beyond:.0%} of the "
                "rows it was measured on lie there."
            )
    return said


def _suspect(found: dict[str, Any], model: Any) -> list[str]:
    """A column that nearly everything comes from, where next to nothing is left to explain."""
    lost = np.clip(found["importance"]["lost"], 0.0, None)
    if len(lost) < 2 or lost[0] < _ALONE * lost.sum():
        return []
    if "points" in found:
        actual, mean = found["points"]["actual"], found["points"]["mean"]
        left = float(np.mean((actual - mean) ** 2)) / max(float(actual.var()), 1e-300)
    else:
        left = 1 - float(found["coverage"]["held"][0, 0])
    if not left < 0.005:
        return []
    name = found["importance"]["column"][0]
    return [
        f"Nearly all that is known of {model.target} comes from {name}: is it known before {model.target} is?"
    ]


def warnings_of(fit: Any) -> list[str]:
    """What should be known before a model is used, the gravest first."""
    words, origin = fit.study.get("words", {}), fit.provenance
    found = [] if fit.verdict.ok else [fit.verdict.sentence]
    found += [*words.get("coverage", []), *words.get("residuals", []), *words.get("warnings", [])]
    for name, count in origin.get("class_rows", {}).items():
        if count < _RARE_CLASS and not any(f"class {name!r}" in note.sentence for note in fit.notes):
            rows = "row" if count == 1 else "rows"
            found.append(f"Only {count} {rows} of class {name}: what is said of it is uncertain.")
    found += [note.sentence for note in fit.notes]
    if origin["cut_short"]:
        found.append("The race was ended early: some models were judged on fewer folds, or not at all.")
    if fit.metrics["rows"] < _FEW:
        where = "only these measured" if fit.untouched else "all were held out in turn to measure"
        found.append(
            f"There are {fit.metrics['rows']} rows, and {where} the winner: shares are known roughly."
        )
    return list(dict.fromkeys([*found, *untried(fit.left_out)]))


def untried(left_out: dict[str, str]) -> list[str]:
    """One sentence for each reason why models were left out; seconds go with the names.

    >>> untried({"forest": "the predicted work (4 s) does not fit into the budget"})
    ['Not tried, as the predicted work does not fit into the budget: forest (4 s).']
    """
    names: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        seconds = "".join(_SECONDS.findall(reason))
        names.setdefault(_SECONDS.sub("", reason), []).append(name + seconds)
    return [f"Not tried, as {reason}: {', '.join(own)}." for reason, own in names.items()]
