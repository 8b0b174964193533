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
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto; }
td, th { padding: .25em .8em; border-bottom: 1px solid #ddd; text-align: right; }
td:first-child, th:first-child { text-align: left; }
figure { margin: 1em 0; } img { max-width: 100%; height: auto; } figcaption { color: #555; font-size: 90%; }
pre { overflow-x: auto; }
.verdict { padding: .6em 1em; border-left: 4px solid #2a7; background: #f3faf6; }
.warning { border-color: #c70; background: #fdf6ec; }
@media print { body { margin: 0; max-width: none; } figure, table { break-inside: avoid; } }
"""


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
    """A table of HTML; cells are written as they are."""
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"


def picture(drawn: Any, said: str, *, caption: str = "") -> str:
    """A figure, or that of an axes, as an image inside the page; `said` is read where it cannot be seen."""
    figure = drawn if hasattr(drawn, "savefig") else drawn.get_figure()
    file = io.BytesIO()
    figure.savefig(
        file, format="png", dpi=100, metadata={"Software": None}
    )  # the same bytes for the same lines
    if "matplotlib.pyplot" in sys.modules:  # which keeps figures that it made
        sys.modules["matplotlib.pyplot"].close(figure)
    data = base64.b64encode(file.getvalue()).decode()
    below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    image = f"<img alt='{html.escape(said, quote=True)}' src='data:image/png;base64,{data}'>"
    return f"<figure>{image}{below}</figure>"
