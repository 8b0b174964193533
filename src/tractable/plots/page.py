"""Reports as one page of HTML that needs nothing else: style, tables, verdicts, and pictures inside the page.

A page is written whole or not at all, asks no network, prints well and is readable at the width of a phone.
"""

import base64
import html
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tractable.core.atomic import write_atomically
from tractable.core.verdict import Verdict

__all__ = ["html_table", "picture", "verdict_box", "write_page"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222;
  overflow-wrap: break-word; }
table { border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto; }
td, th { padding: .25em .8em; border-bottom: 1px solid #ddd; text-align: right; }
td { white-space: nowrap; }
td:first-child, th:first-child, .words { text-align: left; }
td.words { white-space: normal; min-width: 9em; }
figure { margin: 1.5em 0; } img { max-width: 100%; height: auto; } figcaption { color: #555; font-size: 90%; }
pre { overflow-x: auto; }
.verdict { padding: .6em 1em; border-left: 4px solid #2a7; background: #f3faf6; }
.warning { border-color: #c70; background: #fdf6ec; }
@media (max-width: 40em) { body { margin: 1em auto; } h1 { font-size: 1.5em; } h2 { font-size: 1.25em; }
  ul { padding-left: 1.2em; } td, th { padding: .25em .5em; } td.words { min-width: 15em; } }
@media print { body { margin: 0; max-width: none; font-size: 11px; }
  h1, h2, h3, summary { break-after: avoid; } figure, tr, .verdict { break-inside: avoid; }
  table { display: table; } td, td.words { min-width: 0; white-space: normal; }
  td, th { padding: .2em .4em; } img { width: 10.5cm; }
  pre { white-space: pre-wrap; } details::details-content { content-visibility: visible; height: auto; } }
"""

_WORDS = 14  # letters of a cell above which its column is one of words
_INCH, _DOTS = 100, 150  # pixels of the page, and finer ones of the picture


def write_page(path: Path, title: str, parts: Iterable[str]) -> None:
    """Write `parts`, which are HTML, below the `title`, which is not."""
    name = html.escape(title)
    head = (
        "<meta charset='utf-8'><meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{name}</title><style>{_STYLE}</style>"
    )
    body = "\n".join([f"<h1>{name}</h1>", *(part for part in parts if part)])
    page = f"<!doctype html><html lang='en'><head>{head}</head><body>{body}</body></html>\n"
    write_atomically(path, page.encode())


def verdict_box(verdict: Verdict) -> str:
    """The sentence of a verdict, coloured by whether it is good."""
    kind = "verdict" if verdict.ok else "verdict warning"
    return f"<p class='{kind}'>{html.escape(verdict.sentence)}</p>"


def html_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of HTML; cells are written as they are, columns with longer words from the left."""
    long = {place for row in rows for place, cell in enumerate(row) if place and _is_words(cell)}
    kinds = [" class='words'" if place in long else "" for place in range(len(head))]
    top = "".join(f"<th{kind}>{name}</th>" for kind, name in zip(kinds, head))
    cells = ("".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row)) for row in rows)
    return f"<table><tr>{top}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _is_words(cell: object) -> bool:
    return isinstance(cell, str) and len(cell) > _WORDS and any(map(str.isalpha, cell))


def picture(drawn: Any, said: str, *, caption: str = "") -> str:
    """A figure, or that of an axes, as an image inside the page; `said` is read where it cannot be seen."""
    figure = drawn if hasattr(drawn, "savefig") else drawn.get_figure()
    file, width = io.BytesIO(), round(_INCH * figure.get_figwidth())
    figure.savefig(file, format="png", dpi=_DOTS, metadata={"Software": None})  # no version: the same bytes
    if "matplotlib.pyplot" in sys.modules:  # which keeps figures that it made
        sys.modules["matplotlib.pyplot"].close(figure)
    data = base64.b64encode(file.getvalue()).decode()
    below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    image = f"<img width='{width}' alt='{html.escape(said, quote=True)}' src='data:image/png;base64,{data}'>"
    return f"<figure>{image}{below}</figure>"
