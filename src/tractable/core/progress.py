"""Progress of long work: a bar with rate and time to go on a terminal, silence everywhere else.

Contract.    `track(iterable)` wraps a loop; `progress_bar(total)` is advanced by hand and carries fields
             (`divergences=3`). Both write to standard error, only if it is a terminal and `progress` is true:
             a pipe, a log file and a test see nothing.
Cost.        `rich` is imported at the first bar that is shown, never by `import tractable`.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["Bar", "progress_bar", "track"]

Item = TypeVar("Item")


class Bar:
    """A bar that is shown, or (without a display) one that only counts."""

    def __init__(self, display: Any = None, task: Any = None, done: int = 0):
        self.count = done
        self.fields: dict[str, Any] = {}
        self._display, self._task, self._done, self._start = display, task, done, time.monotonic()

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


@contextmanager
def progress_bar(
    total: int | None = None, label: str = "Working", *, done: int = 0, progress: bool = True
) -> Iterator[Bar]:
    """A bar to advance by hand, of work of which `done` steps were made before.

    >>> with progress_bar(3, "Sampling") as bar:
    ...     bar.advance(2, divergences=0)
    """
    if not (progress and _is_terminal()):
        yield Bar(done=done)
        return
    with _display() as display:
        yield Bar(display, display.add_task(label, total=total, completed=done, detail=""), done)


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
