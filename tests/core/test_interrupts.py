"""Ctrl-C during calls into compiled code, and the end of a process that has left one behind."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from tractable.core.interrupts import heard, in_threads

LEFT_BEHIND = """
import os, signal, threading, jax, jax.numpy as jnp
from tractable.core.programs import program
signal.signal(signal.SIGINT, signal.default_int_handler)
@program
def endless(x):
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    return jax.lax.while_loop(lambda x: x.sum() < 1, lambda x: x @ x / 2, x)
try:
    endless(jnp.zeros((3, 3)))
except KeyboardInterrupt:
    print("raised", flush=True)
    {ending}
"""


@pytest.fixture(autouse=True)
def _listening():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_answers_and_errors_come_back():
    assert heard(lambda a, b: a + b, 1, 2) == 3
    with pytest.raises(ZeroDivisionError):
        heard(lambda: 1 / 0)
    assert heard(threading.current_thread) is not threading.main_thread()


def test_a_wait_is_interrupted_while_the_call_goes_on():
    begun, release = threading.Event(), threading.Event()

    def press() -> None:
        begun.wait()
        signal.raise_signal(signal.SIGINT)

    def work() -> None:
        begun.set()
        release.wait()

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        heard(work)
    release.set()
    presser.join()


def test_threads_that_have_not_begun_never_do():
    done = []

    def work(k: int) -> int:
        done.append(k)
        time.sleep(0.01)
        if k == 1:
            raise KeyboardInterrupt
        return k

    with pytest.raises(KeyboardInterrupt):
        list(in_threads(work, range(200), 2))
    assert len(done) < 100
    assert list(in_threads(abs, [-1, 2, -3], 1)) == list(in_threads(abs, [-1, 2, -3])) == [1, 2, 3]


@pytest.mark.cheap
@pytest.mark.parametrize(("ending", "code"), [("raise", -signal.SIGINT), ("1 / 0", 1), ("pass", 130)])
@pytest.mark.thorough
def test_a_process_ends_though_its_compiled_code_never_does(ending, code):
    child = subprocess.run(
        [sys.executable, "-c", LEFT_BEHIND.replace("{ending}", ending)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (child.returncode, child.stdout) == (code, "raised\n"), child.stderr
