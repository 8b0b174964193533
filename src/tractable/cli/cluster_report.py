"""The report of `tractable cluster`: one page of HTML that needs nothing else, with its pictures inside."""

import html
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from tractable.cli.cluster_analysis import Analysis
from tractable.cli.page import html_table, picture, verdict_box, write_page
from tractable.distributions.soft_gaps import impute
from tractable.plots.clusters import plot_members, plot_number_of_clusters, plot_profiles

__all__ = ["write_report"]


def write_report(path: Path, source: str, found: Analysis) -> None:
    """Write the page."""
    parts = [
        verdict_box(found.verdict),
        _left_out(found),
        _numbers(found),
        "<h2>The clusters</h2>",
        *(_cluster(found, k) for k in range(len(found.clusters))),
        _pictures(found),
    ]
    write_page(path, f"Clusters of {source}", parts)


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
    drawn = plot_number_of_clusters(numbers, heights, errors, ax=_axes(6.0, 3.4))
    head = ("clusters", "shape", "log-evidence", "behind the best", "probability")
    image = picture(drawn, "log-evidence by the number of clusters")
    return f"<h2>How many?</h2>{html_table(head, rows)}{image}"


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
        + picture(
            plot_profiles(table, names, clusters, ax=_axes(*size)), "means of the columns in each cluster"
        )
        + "<h2>The rows</h2>"
        + picture(plot_members(full, found.shares, ax=_axes(7.0, 5.0)), "the rows, coloured by their cluster")
    )


def _axes(width: float, height: float) -> Any:
    return plt.subplots(figsize=(width, height), layout="constrained")[1]
