r"""Columns of categories for models: a column for each frequent level, or codes.

Linear.      One column of zeros and ones for each level that enough training rows have, one for all other
             levels together, one for gaps where there were some; two levels need one column. Ordered levels
             have their place, standardised, besides. A level that was never seen is one of the others, or
             none.
Trees.       The place of the level in order; NaN for gaps and for levels that were never seen.
Wide.        A column with more levels than `MOST_COLUMNS` also has the logarithm of the share of its level.
Cost.        Linear in the rows; distinct words are looked up once.
"""

from typing import Any

import numpy as np

from tractable.tables.cells import factorised

__all__ = ["MOST_COLUMNS", "LevelPart"]

MOST_COLUMNS = 40
_RARE = 5  # rows, in a table of a hundred or more


class LevelPart:
    """One column of categories."""

    def __init__(self, name: str, form: str, order: tuple[str, ...] = ()):
        self.name, self.form, self.order = name, form, tuple(order)

    def fit(self, frame: Any) -> "LevelPart":
        codes, words = factorised(frame[self.name])
        counts = np.bincount(codes[codes >= 0], minlength=len(words))
        known = dict(zip(words, counts.tolist()))
        self.levels = list(self.order) + sorted(set(words) - set(self.order), key=_place)
        self.counts = np.array([known.get(level, 0) for level in self.levels], int)
        self.num_rows, self.has_gaps = len(frame), bool((codes < 0).any())
        self.kept = self._kept()
        self._finish()
        if self.order:
            places = self.codes(frame).astype(float)
            places = places[places >= 0]
            self.mean = float(places.mean()) if len(places) else 0.0
            self.scale = float(places.std()) or 1.0 if len(places) else 1.0
        return self

    def _kept(self) -> np.ndarray:
        """Places of the levels with a column of their own."""
        least = min(_RARE, max(1, self.num_rows // 20))
        frequent = np.argsort(-self.counts, kind="stable")[:MOST_COLUMNS]
        kept = [k for k in frequent if self.counts[k] >= least]
        others = int((self.counts > 0).sum()) - len(kept)
        if others == 1 and len(kept) < MOST_COLUMNS:  # pooled alone it would be the same column
            kept = [k for k in frequent if self.counts[k] > 0][: len(kept) + 1]
        return np.sort(np.array(kept, int))

    def _finish(self) -> None:
        present = self.counts > 0
        self.pools = int(present.sum()) > len(self.kept)
        self._places = {level: place for place, level in enumerate(self.levels) if present[place]}
        self.is_wide = int(present.sum()) > MOST_COLUMNS
        self.mean, self.scale = getattr(self, "mean", 0.0), getattr(self, "scale", 1.0)

    def codes(self, frame: Any) -> np.ndarray:
        """The place of each cell among the levels: -1 for gaps, -2 for what was never seen."""
        codes, words = factorised(frame[self.name])
        return np.array([*(self._places.get(word, -2) for word in words), -1])[codes]

    def transform(self, frame: Any) -> np.ndarray:
        return self._rows()[self.codes(frame)]

    def _rows(self) -> np.ndarray:
        """What each level becomes; the last two rows are those of -2, never seen, and -1, a gap."""
        codes = np.append(np.arange(len(self.levels)), [-2, -1])
        codes[:-2][self.counts == 0] = -2
        trees = self.form == "trees"
        columns = [np.where(codes < 0, np.nan, codes)] if trees else self._indicators(codes)
        if self.is_wide:
            share = np.append(self.counts, [0, 0]) / self.num_rows
            columns.append(np.log(share + 0.5 / self.num_rows))
        return np.column_stack(columns) if columns else np.zeros((len(codes), 0))

    def _indicators(self, codes: np.ndarray) -> list[np.ndarray]:
        own = [(codes == k).astype(float) for k in self._shown()]
        if self.pools:
            own.append(((codes != -1) & ~np.isin(codes, self.kept)).astype(float))
        if self.has_gaps:
            own.append((codes == -1).astype(float))
        if self.order:
            own.append(np.where(codes < 0, 0.0, (codes - self.mean) / self.scale))
        return own

    def _shown(self) -> list[int]:
        """Of two levels one is enough, of one none."""
        kept = self.kept.tolist()
        return kept[1:] if len(kept) <= 2 and not self.pools else kept

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """Name and source of each encoded column."""
        if self.form == "trees":
            names = [self.name]
        else:
            names = [f"{self.name}={self.levels[k]}" for k in self._shown()]
            names += [f"{self.name} other"] * self.pools + [f"{self.name} missing"] * self.has_gaps
            names += [f"{self.name} order"] * bool(self.order)
        names += [f"{self.name} log share"] * self.is_wide
        return [(name, self.name) for name in names]

    def state(self) -> dict[str, Any]:
        return {
            "name": self.name, "form": self.form, "order": list(self.order), "levels": list(self.levels),
            "counts": self.counts, "kept": self.kept, "num_rows": self.num_rows, "has_gaps": self.has_gaps,
            "mean": self.mean, "scale": self.scale,
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "LevelPart":
        part = cls(state["name"], state["form"], tuple(state["order"]))
        part.levels, part.counts, part.kept = (
            state["levels"],
            np.asarray(state["counts"]),
            np.asarray(state["kept"]),
        )
        part.num_rows, part.has_gaps = state["num_rows"], state["has_gaps"]
        part.mean, part.scale = state["mean"], state["scale"]
        part._finish()
        return part


def _place(word: str) -> tuple:
    """Numbers before words, numbers by size."""
    try:
        return (0, float(word), word)
    except ValueError:
        return (1, 0.0, word)
