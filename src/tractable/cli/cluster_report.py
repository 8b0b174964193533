"""The report of `tractable cluster`: one page of HTML that needs nothing else, with its pictures inside."""

import base64
import html
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("agg")  # before pyplot: a command has no screen

import matplotlib.pyplot as plt
import numpy as np

from tractable.cli.cluster_analysis import Analysis
from tractable.distributions.soft_gaps import impute
from tractable.plots.clusters import plot_members, plot_number_of_clusters, plot_profiles

__all__ = ["STYLE", "html_table", "write_report"]

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; }
td, th { padding: .25em .8em; border-bottom: 1px solid #ddd; text-align: right; }
td:first-child, th:first-child { text-align: left; } img { max-width: 100%; }
.verdict { padding: .6em 1em; border-left: 4px solid #2a7; background: #f3faf6; }
.warning { border-color: #c70; background: #fdf6ec; }
"""


def write_report(path: Path, source: str, found: Analysis) -> None:
    """Write the page."""
    verdict = found.verdict
    parts = [
        f"<h1>Clusters of {html.escape(source)}</h1>",
        f"<p class='verdict{'' if verdict.ok else ' warning'}'>{html.escape(verdict.sentence)}</p>",
        _left_out(found),
        _numbers(found),
        "<h2>The clusters</h2>",
        *(_cluster(found, k) for k in range(len(found.clusters))),
        _pictures(found),
    ]
    head = f"<meta charset='utf-8'><title>Clusters of {html.escape(source)}</title><style>{STYLE}</style>"
    body = "\n".join(part for part in parts if part)
    path.write_text(
        f"<!doctype html><html lang='en'><head>{head}</head><body>{body}</body></html>\n", "utf-8"
    )


def _left_out(found: Analysis) -> str:
    columns = found.columns
    used = ", ".join(html.escape(name) for name in (*columns.number_names, *columns.category_names))
    gone = [f"{html.escape(name)} ({html.escape(why)})" for name, why in columns.left_out.items()]
    rest = f" Left out: {', '.join(gone)}." if gone else ""
    return f"<p>{columns.num_rows} rows. Columns in use: {used}.{rest}</p>"


def _numbers(found: Analysis) -> str:
    if len(found.candidates) < 2:
        return ""
    rows = [
        (each.num_clusters, each.shape, f"{each.log_evidence:.1f}",
         "" if each.behind == 0 else f"{each.behind:.1f} &plusmn; {each.standard_error:.1f}",
         f"{each.probability:.3f}")
        for each in found.candidates
    ]  # fmt: skip
    numbers = [each.num_clusters for each in found.candidates]
    heights = [each.log_evidence for each in found.candidates]
    errors = [each.standard_error for each in found.candidates]
    picture = _picture(lambda ax: plot_number_of_clusters(numbers, heights, errors, ax=ax), (6, 3.4))
    head = ("clusters", "shape", "log-evidence", "behind the best", "probability")
    return f"<h2>How many?</h2>{html_table(head, rows)}{picture}"


def _cluster(found: Analysis, k: int) -> str:
    each = found.clusters[k]
    rows = [
        (html.escape(f.column), html.escape(f.words), f"{f.bits:.2f}")
        for f in each.features[:8]
        if f.bits > 0.01
    ]
    facts = f"{each.share:.1%} of the rows ({each.num_rows}), with certainty {each.certainty:.2f}"
    sentence = html.escape(each.sentence())
    return f"<h3>Cluster {k + 1}: {sentence}</h3><p>{facts}.</p>{html_table(('column', 'how', 'bits'), rows)}"


def _pictures(found: Analysis) -> str:
    names, model = found.columns.number_names, found.fit.state.numbers
    if not names or model is None:
        return ""
    rows = found.columns.numbers
    mean, spread = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
    profiles = [[f.inside for n in names for f in c.features if f.column == n] for c in found.clusters]
    table = (np.array(profiles) - mean) / spread
    clusters = [f"cluster {k + 1}" for k in range(len(found.clusters))]
    size = (2.5 + 0.6 * len(names), 1.8 + 0.45 * len(clusters))
    full = impute(model, rows) if np.isnan(rows).any() else rows
    return (
        "<h2>Profiles</h2>"
        + _picture(lambda ax: plot_profiles(table, names, clusters, ax=ax), size)
        + "<h2>The rows</h2>"
        + _picture(lambda ax: plot_members(full, found.shares, ax=ax), (7, 5))
    )


def html_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of HTML; cells are written as they are."""
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"


def _picture(draw: Callable, size: tuple[float | int, float | int]) -> str:
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    draw(ax)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    plt.close(figure)
    return f"<img alt='' src='data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}'>"
