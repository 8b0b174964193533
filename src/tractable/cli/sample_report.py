"""The report of `tractable sample`: one page of HTML that needs nothing else, with its pictures inside."""

import base64
import html
import io
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")  # before pyplot: a command has no screen

import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np

from tractable.cli.cluster_report import STYLE, html_table
from tractable.plots.chains import plot_marginal, plot_trace
from tractable.plots.programs import draw, plot_checks, plot_forest
from tractable.programs.posterior import ProgramPosterior
from tractable.programs.statement import state

__all__ = ["write_report"]

_MOST = 8  # variables with a picture of their own


def write_report(path: Path, title: str, post: ProgramPosterior, seed: int, named: dict[str, str]) -> None:
    """Write the page."""
    verdict, name = post.verdict, html.escape(title)
    parts = [
        f"<h1>{name}</h1>",
        f"<p class='verdict{'' if verdict.ok else ' warning'}'>{html.escape(verdict.sentence)}</p>",
        "<h2>The model</h2>",
        f"<pre>{html.escape(repr(state(post._program())))}</pre>",
        _picture(draw(post)),
        "<h2>What was done</h2>",
        post.explain()._repr_html_(),
        "<h2>The posterior</h2>",
        _summary(post, named),
        _picture(plot_forest(post)),
        *_variables(post),
        *_checks(post, seed),
    ]
    head = f"<meta charset='utf-8'><title>{name}</title><style>{STYLE} pre {{ overflow-x: auto; }}</style>"
    body = "\n".join(part for part in parts if part)
    path.write_text(
        f"<!doctype html><html lang='en'><head>{head}</head><body>{body}</body></html>\n", "utf-8"
    )


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
    return ["<h2>Traces</h2>" if dependent else "<h2>Marginals</h2>", _picture(ax)]


def _checks(post: ProgramPosterior, seed: int) -> list[str]:
    axes = plot_checks(post, key=jr.key(seed))
    if not axes:
        return []
    said = (
        "What the program would give again, beside what was observed: where they differ, it misses something."
    )
    return ["<h2>Predictive checks</h2>", f"<p>{said}</p>", _picture(axes[0])]


def _picture(ax: Any) -> str:
    figure = ax.get_figure()
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=100)
    plt.close(figure)
    return f"<img alt='' src='data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}'>"
