"""Progress of long work: a bar with rate and time to go on a terminal, silence everywhere else.

Contract.    `track(iterable)` wraps a loop; `progress_bar(total)` is advanced by hand and carries fields
             (`divergences=3`). Both write to standard error, only if it is a terminal and `progress` is true:
             a pipe, a log file and a test see nothing.
When.        After `DELAY` seconds of work, so that short work shows nothing. Of bars within bars only the
             outermost is shown; `progress=False` there silences all.
Cost.        A timer for each bar on a terminal; `rich` is imported at the first bar that is shown.
"""

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["DELAY", "Bar", "progress_bar", "track"]

DELAY = 2.0  # seconds

Item = TypeVar("Item")


class Bar:
    """A count of steps with fields; shown on a terminal, if at all, when `show` is called."""

    def __init__(self, total: int | None = None, label: str = "Working", done: int = 0):
        self.count = done
        self.fields: dict[str, Any] = {}
        self._total, self._label, self._done, self._start = total, label, done, time.monotonic()
        self._display: Any = None
        self._task: Any = None
        self._closed = False
        self._lock = threading.Lock()  # the clock that shows the bar ticks on another thread

    def advance(self, steps: int = 1, **fields: Any) -> None:
        """Count `steps` more, and show the fields beside the bar from now on."""
        self.count += steps
        self.fields |= fields
        if self._display is not None:
            self._display.update(self._task, completed=self.count, detail=self.detail())

    def detail(self) -> str:
        """The rate and the fields in words."""
        seconds = time.monotonic() - self._start
        steps = self.count - self._done
        rate = f"{_number(steps / seconds)}/s" if steps and seconds > 0 else ""
        return "  ".join([rate, *(f"{name}={_number(value)}" for name, value in self.fields.items())]).strip()

    def show(self) -> None:
        """Draw the bar from now on, unless the work has ended meanwhile."""
        with self._lock:
            if self._closed:
                return
            display = _display()
            display.start()
            self._task = display.add_task(
                self._label, total=self._total, completed=self.count, detail=self.detail()
            )
            self._display = display

    def close(self) -> None:
        """The work has ended: the last state of the bar stays on the screen."""
        with self._lock:
            self._closed = True
            if self._display is not None:
                self._display.stop()


_open: list[Bar] = []  # bars of the main thread: only the outermost is shown


@contextmanager
def progress_bar(
    total: int | None = None, label: str = "Working", *, done: int = 0, progress: bool = True
) -> Iterator[Bar]:
    """A bar to advance by hand, of work of which `done` steps were made before.

    >>> with progress_bar(3, "Sampling") as bar:
    ...     bar.advance(2, divergences=0)
    """
    bar = Bar(total, label, done)
    if threading.current_thread() is not threading.main_thread():
        yield bar  # a part of work whose bar, if any, is the main thread's
        return
    clock = _clock(bar) if progress and not _open and _is_terminal() else None
    _open.append(bar)
    try:
        yield bar
    finally:
        if clock is not None:
            clock.cancel()
        bar.close()
        _open.remove(bar)


def _clock(bar: Bar) -> threading.Timer:
    """Shows the bar when the work has taken `DELAY` seconds."""
    clock = threading.Timer(DELAY, bar.show)
    clock.daemon = True
    clock.start()
    if DELAY == 0:
        clock.join()
    return clock


def track(
    iterable: Iterable[Item], total: int | None = None, label: str = "Working", *, progress: bool = True
) -> Iterator[Item]:
    """The items of `iterable`, with a bar; `total` is its length where it has one.

    >>> sum(track(range(4), label="Adding"))
    6
    """
    if total is None and hasattr(iterable, "__len__"):
        total = len(iterable)  # type: ignore[arg-type]
    with progress_bar(total, label, progress=progress) as bar:
        for item in iterable:
            yield item
            bar.advance()


def _is_terminal() -> bool:
    """Whether standard error is a terminal (it may be closed, or missing under a windowed program)."""
    stream = sys.stderr
    return stream is not None and not stream.closed and stream.isatty()


def _display() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
    )


def _number(value: Any) -> str:
    """A number in four digits, anything else as it prints."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
