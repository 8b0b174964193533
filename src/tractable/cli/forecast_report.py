"""The report of `tractable forecast`: one page of HTML that needs nothing else, with its pictures inside."""

import html
from pathlib import Path

import matplotlib

matplotlib.use("agg")  # before pyplot: a command has no screen

import base64
import io
from typing import Any

import matplotlib.pyplot as plt

from tractable.cli.cluster_report import STYLE, html_table
from tractable.plots.forecast import plot_decomposition, plot_fan
from tractable.statespace.forecast.forecast import SeriesForecast

__all__ = ["write_report"]


def write_report(path: Path, source: str, found: dict[str, SeriesForecast], refused: dict[str, str]) -> None:
    """Write the page."""
    title = f"Forecasts of {html.escape(source)}"
    parts = [f"<h1>{title}</h1>", *(_section(name, each) for name, each in found.items())]
    parts += [f"<p>Left out: {html.escape(name)} ({html.escape(why)}).</p>" for name, why in refused.items()]
    head = f"<meta charset='utf-8'><title>{title}</title><style>{STYLE}</style>"
    body = "\n".join(parts)
    path.write_text(
        f"<!doctype html><html lang='en'><head>{head}</head><body>{body}</body></html>\n", "utf-8"
    )


def _section(name: str, each: SeriesForecast) -> str:
    verdict, judged = each.verdict, each.evaluation
    rows = [] if judged is None else sorted(zip(judged.names, judged.log_scores), key=lambda pair: -pair[1])
    cells = [(html.escape(n), f"{s:.3f}", f"{each.weights.get(n, 0.0):.2f}") for n, s in rows]
    steps = [
        (time, *(f"{x:.5g}" for x in numbers))
        for time, *numbers in zip(each.times, each.mean, each.median, each.lower, each.upper)
    ]
    events = [
        (
            event.kind,
            each.series.times(event.place, event.place + 1)[0],
            f"{event.size:+.3g}",
            f"{event.statistic:.1f}",
        )
        for event in each.events
    ]
    pictures = _picture(plot_fan(each))
    if each.decomposition is not None:
        pictures += "<h3>Components</h3>" + _picture(plot_decomposition(each)[0])
    return (
        f"<h2>{html.escape(name)}</h2>"
        f"<p class='verdict{'' if verdict.ok else ' warning'}'>{html.escape(verdict.sentence)}</p>"
        + pictures
        + html_table(("model", "log-score", "weight"), cells)
        + (html_table(("event", "time", "size", "statistic"), events) if events else "")
        + html_table(("time", "mean", "median", "lower", "upper"), steps)
    )


def _picture(ax: Any) -> str:
    figure = ax.get_figure()
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=100)
    plt.close(figure)
    return f"<img alt='' src='data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}'>"
