r"""Words that have an order: known scales, ranges of numbers, words that begin with their place.

Scales.      All words occur in one of the scales below, in at least two different places.
Ranges.      `18-25`, `26 to 40`, `<5`, `65+`, `>= 100`: by their first number, open beginnings first.
Places.      `1 - low`, `2. fair`: a number and what it means; `grade 3`, `stage 2`: words that count upwards;
             `group 3` and `k3` are names.
Otherwise.   None: an order that is not there would be invented.
"""

import re
from collections.abc import Sequence

__all__ = ["in_order"]

_SCALES = tuple(
    tuple(tuple(word.split("/")) for word in scale.split(", "))
    for scale in (
        "none/no/zero, very low/lowest, low/small/minor/mild, medium/moderate/mid/middle/average/normal, "
        "high/large/major/severe, very high/highest/extreme/critical",
        "very small/tiny/xxs, xs, s/small, m/medium, l/large, xl/very large/huge, xxl, xxxl",
        "very bad/very poor/terrible, bad/poor, fair/average/ok/okay/neutral, good, very good, "
        "excellent/great/ideal/premium",
        "never, rarely/seldom, sometimes/occasionally, often/frequently/usually, always",
        "strongly disagree, disagree, neutral/neither, agree, strongly agree",
        "very dissatisfied, dissatisfied, neutral, satisfied, very satisfied",
        "very unlikely, unlikely, neutral/possible, likely, very likely",
        "daily, weekly, monthly, quarterly, yearly/annually",
        "young/child, teen/teenager, adult/middle-aged, old/senior/elderly",
        "cold, cool, mild, warm, hot",
        "first, second, third, fourth, fifth",
        "primary, secondary, tertiary",
        "beginner/novice, intermediate, advanced, expert",
        "junior, mid, senior, lead, principal",
        "bronze, silver, gold, platinum, diamond",
        "mon/monday, tue/tuesday, wed/wednesday, thu/thursday, fri/friday, sat/saturday, sun/sunday",
        "jan/january, feb/february, mar/march, apr/april, may, jun/june, jul/july, aug/august, "
        "sep/september, oct/october, nov/november, dec/december",
    )
)  # fmt: skip
_RANGE = re.compile(
    r"(?P<open><=?|≤|under |below |up to )?\s*(?P<first>-?\d+(?:\.\d+)?)\s*[a-z%]{0,6}\s*"
    r"(?P<end>\+|(?:-|–|to|\.\.)\s*<?\d+(?:\.\d+)?\s*[a-z%]{0,6}| and (?:over|above|more)| or more)?"
)
_ABOVE = re.compile(r"(?:>=?|≥|over |above |more than )\s*(?P<first>-?\d+(?:\.\d+)?)\s*[a-z%]{0,6}")
_PLACE = re.compile(r"(?P<before>[a-z ]*?)[\s(\[]*(?P<place>\d{1,2})[\s.):\]-]*(?P<after>[a-z ]*)")
_COUNTING = frozenset({
    "band", "decile", "degree", "generation", "grade", "level", "phase", "priority", "quarter", "quartile",
    "quintile", "rank", "rating", "round", "score", "season", "severity", "stage", "star", "stars", "step",
    "tier", "wave", "week", "year",
})  # fmt: skip
_MOST = 40


def in_order(words: Sequence[str]) -> list[str] | None:
    """The words in their order, None where they have none.

    >>> in_order(["high", "low", "medium"]), in_order(["65+", "18-25", "<18"]), in_order(["red", "blue"])
    (['low', 'medium', 'high'], ['<18', '18-25', '65+'], None)
    """
    if not 2 < len(words) <= _MOST:
        return None
    lower = [re.sub(r"[_\s]+", " ", word.strip().lower()) for word in words]
    for ranks in (*(_in_scale(lower, scale) for scale in _SCALES), _ranges(lower), _places(lower)):
        if ranks is not None and len(set(ranks)) == len(words):
            return [word for _, word in sorted(zip(ranks, words))]
    return None


def _in_scale(words: list[str], scale: tuple[tuple[str, ...], ...]) -> list[tuple] | None:
    rank = {word: (place,) for place, same in enumerate(scale) for word in same}
    return [rank[word] for word in words] if all(word in rank for word in words) else None


def _ranges(words: list[str]) -> list[tuple] | None:
    """The first number and whether the range is open, where at least one word is a range."""
    ranks, spans = [], 0
    for word in words:
        found, above = _RANGE.fullmatch(word), _ABOVE.fullmatch(word)
        if found is not None:
            ranks.append((float(found["first"]), -1 if found["open"] else 0))
            spans += bool(found["open"] or found["end"])
        elif above is not None:
            ranks.append((float(above["first"]), 1))
            spans += 1
        else:
            return None
    return ranks if spans else None


def _places(words: list[str]) -> list[tuple] | None:
    """The number in each word, where it begins the word or counts what the word names."""
    found = [_PLACE.fullmatch(word) for word in words]
    if not all(found):
        return None
    before, after = ({match[side].strip() for match in found if match} for side in ("before", "after"))
    meant = before == {""} and "" not in after and len(after) > 1
    counted = (before | after) - {""}
    if not meant and not (len(counted) == 1 and counted <= _COUNTING):
        return None
    return [(int(match["place"]),) for match in found if match]
