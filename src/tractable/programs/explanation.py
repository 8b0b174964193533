"""What inference did with each site of a program, and why: sentences, and a table."""

from typing import Any

from tractable.core.module import HostResult, field

__all__ = ["Explanation"]


class Explanation(HostResult):
    """`rows` are (site, law, shape, what happened); `sentences` say what was done with the whole."""

    sentences: tuple[str, ...] = field(static=True)
    rows: tuple[tuple[str, str, str, str], ...] = field(static=True)
    latents: tuple[str, ...] = field(static=True)
    before: int = field(static=True)
    after: int = field(static=True)

    def __repr__(self) -> str:
        widths = [max(len(row[i]) for row in (_HEAD, *self.rows)) for i in range(3)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)) + "  " + row[3]
                 for row in (_HEAD, *self.rows)]  # fmt: skip
        return "\n".join([*self.sentences, "", *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        from html import escape

        cells = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in self.rows)
        head = "".join(f"<th>{name}</th>" for name in _HEAD)
        said = " ".join(escape(sentence) for sentence in self.sentences)
        return f"<p>{said}</p><table><tr>{head}</tr>{cells}</table>"

    def to_frame(self) -> Any:
        """The table of sites."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(_HEAD)).set_index("site")


_HEAD = ("site", "law", "shape", "what happened")
