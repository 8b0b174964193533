"""The report of `tractable forecast`: one page of HTML that needs nothing else, with its pictures inside."""

import html
from pathlib import Path

from tractable.cli.page import html_table, picture, verdict_box, write_page
from tractable.plots.forecast import plot_decomposition, plot_fan
from tractable.statespace.forecast.forecast import SeriesForecast

__all__ = ["write_report"]


def write_report(path: Path, source: str, found: dict[str, SeriesForecast], refused: dict[str, str]) -> None:
    """Write the page."""
    parts = [_section(name, each) for name, each in found.items()]
    parts += [f"<p>Left out: {html.escape(name)} ({html.escape(why)}).</p>" for name, why in refused.items()]
    write_page(path, f"Forecasts of {source}", parts)


def _section(name: str, each: SeriesForecast) -> str:
    judged = each.evaluation
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
    pictures = picture(plot_fan(each), f"{name}: what was seen, the forecast and its interval")
    if each.decomposition is not None:
        pictures += "<h3>Components</h3>" + picture(plot_decomposition(each)[0], f"{name} in parts")
    return (
        f"<h2>{html.escape(name)}</h2>"
        + verdict_box(each.verdict)
        + pictures
        + html_table(("model", "log-score", "weight"), cells)
        + (html_table(("event", "time", "size", "statistic"), events) if events else "")
        + html_table(("time", "mean", "median", "lower", "upper"), steps)
    )
