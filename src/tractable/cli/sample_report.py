"""The report of `tractable sample`: one page of HTML that needs nothing else, with its pictures inside."""

import html
from pathlib import Path
from typing import Any

import jax.random as jr
import numpy as np

from tractable.cli.page import html_table, picture, verdict_box, write_page
from tractable.plots.chains import plot_marginal, plot_trace
from tractable.plots.programs import draw, plot_checks, plot_forest
from tractable.programs.posterior import ProgramPosterior
from tractable.programs.statement import state

__all__ = ["write_report"]

_MOST = 8  # variables with a picture of their own


def write_report(path: Path, title: str, post: ProgramPosterior, seed: int, named: dict[str, str]) -> None:
    """Write the page."""
    parts = [
        verdict_box(post.verdict),
        "<h2>The model</h2>",
        f"<pre>{html.escape(repr(state(post._program())))}</pre>",
        picture(draw(post), "the graph of the model with its plates"),
        "<h2>What was done</h2>",
        post.explain()._repr_html_(),
        "<h2>The posterior</h2>",
        _summary(post, named),
        picture(plot_forest(post), "intervals of all variables"),
        *_variables(post),
        *_checks(post, seed),
    ]
    write_page(path, title, parts)


def _summary(post: ProgramPosterior, named: dict[str, str]) -> str:
    table: Any = post.summary()
    rows = [
        (html.escape(str(named.get(name, name))), *(f"{value:.4g}" for value in row))
        for name, row in zip(table.index, table.to_numpy(float))
    ]
    shown = html_table(("", *table.columns), rows[:200])
    return shown + (f"<p>{len(rows) - 200} further rows.</p>" if len(rows) > 200 else "")


def _variables(post: ProgramPosterior) -> list[str]:
    """The first variables that vary, traces where the draws follow each other."""
    names = [name for name in post.names if np.ptp(post[name]) > 0][:_MOST]
    if not names:
        return []
    dependent = post._is_dependent
    show: Any = plot_trace if dependent else plot_marginal
    drawn = show(post, names)
    ax = drawn[0] if isinstance(drawn, list) else drawn
    return ["<h2>Traces</h2>" if dependent else "<h2>Marginals</h2>", picture(ax, "draws of each variable")]


def _checks(post: ProgramPosterior, seed: int) -> list[str]:
    axes = plot_checks(post, key=jr.key(seed))
    if not axes:
        return []
    said = (
        "What the program would give again, beside what was observed: where they differ, it misses something."
    )
    return ["<h2>Predictive checks</h2>", f"<p>{said}</p>", picture(axes[0], "replicated beside observed")]
