r"""Ctrl-C during long calls into compiled code: heard at once, and no crash at the end of the process.

Why.         Python looks at the keyboard between two of its instructions, and a call into compiled code is
             one instruction, be it an hour of a loop. So `heard` makes the call on a thread of its own, while
             the main thread waits, and a wait can be interrupted.
What is left. Compiled code cannot be stopped: it goes on behind the scenes until its end, and nobody takes
             its answer. A process that ends meanwhile would pull the libraries away from under it (signal
             11): it waits `PATIENCE` seconds, then leaves without taking anything apart.
Progress.    A call that takes long shows that it goes on (`core.progress`), unless a bar around it does.
Cost.        Two changes of threads, some hundred microseconds: for calls that may take a tenth of a second.
"""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

from tractable.core.progress import progress_bar, track

__all__ = ["PATIENCE", "heard", "in_threads"]

PATIENCE = 1.0
_LOOK = 0.25  # seconds between two looks at the keyboard

_Answer = TypeVar("_Answer")


def heard(work: Callable[..., _Answer], *arguments: Any) -> _Answer:
    """`work(*arguments)`, during which Ctrl-C raises `KeyboardInterrupt` at once.

    >>> heard(sum, [1, 2, 3])
    6
    """
    if threading.current_thread() is not threading.main_thread():
        return work(*arguments)  # signals are for the main thread, which waits already
    task = _Task(work, arguments)
    worker = _idle.pop() if _idle else _Worker()
    worker.tasks.put(task)
    with progress_bar(None, "Computing"):
        while not task.ended.wait(_LOOK):  # a signal that another thread received does not end a wait
            pass
    return task.answer()


def in_threads(
    function: Callable[[Any], Any], inputs: Iterable[Any], num_threads: int | None = None
) -> Iterator[Any]:
    """`function` of each input, in order, computed in threads (as many as there are processors).

    After Ctrl-C, or an error, what has not begun never does, and nobody waits for the rest.

    >>> list(in_threads(abs, [-1, 2, -3], 2))
    [1, 2, 3]
    """
    inputs = list(inputs)
    count = min(len(inputs), num_threads or os.cpu_count() or 1)
    if count <= 1:
        yield from track(map(function, inputs), len(inputs))
        return
    pool = ThreadPoolExecutor(count)
    try:
        yield from track(pool.map(function, inputs), len(inputs))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class _Task:
    """A call, and what came of it."""

    def __init__(self, work: Callable, arguments: tuple):
        self.work, self.arguments, self.ended = work, arguments, threading.Event()
        self.found: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.found = self.work(*self.arguments)
        except BaseException as error:  # raised again where the answer is taken
            self.error = error
        del self.work, self.arguments

    def answer(self) -> Any:
        if self.error is None:
            return self.found
        try:
            raise self.error
        finally:
            del self.error  # which holds the frames that hold this task


class _Worker(threading.Thread):
    """A thread that makes one call after the other, and does not keep the process alive.

    It is used again: each new thread would get memory of its own, in which the compiler leaves holes.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.tasks: SimpleQueue[_Task] = SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            task = self.tasks.get()
            _running.add(task)
            task.run()
            _running.discard(task)
            _idle.append(self)
            task.ended.set()
            del task


_running: set[_Task] = set()
_idle: list[_Worker] = []


@atexit.register
def _leave() -> None:
    """Let abandoned calls end; where one does not, end the process as Python would, but at once."""
    deadline = time.monotonic() + PATIENCE
    for task in list(_running):
        task.ended.wait(max(0.0, deadline - time.monotonic()))
    if not _running:
        return
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    failed = getattr(sys, "last_type", None)
    if failed is KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
    os._exit(130 if failed is None else 1)
