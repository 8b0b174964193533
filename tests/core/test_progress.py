"""Bars on terminals only."""

import io
import os
import subprocess
import sys
import threading
import time

import pytest

from tractable.core import progress
from tractable.core.interrupts import heard
from tractable.core.progress import progress_bar, track

# the module by itself: another process need not wait for JAX
ALONE = (
    f"import importlib.util as u; s = u.spec_from_file_location('progress', {progress.__file__!r}); "
    "p = u.module_from_spec(s); s.loader.exec_module(p)"
)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_nothing_is_written_to_a_pipe(capfd):
    assert list(track(range(3), label="Counting")) == [0, 1, 2]
    with progress_bar(3, "Counting") as bar:
        bar.advance(2, divergences=1)
        assert (bar.count, bar.fields) == (2, {"divergences": 1})
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_terminal_shows_label_count_rate_and_fields(monkeypatch, capfd, at_once):
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_bar(10, "Sampling", done=4) as bar:
        bar.advance(6, divergences=2, step=0.123456)
    shown = terminal.getvalue()
    for words in ("Sampling", "10/10", "/s", "divergences=2", "step=0.1235"):
        assert words in shown
    assert capfd.readouterr().out == ""


def test_progress_false_is_silent_on_a_terminal(monkeypatch, at_once):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert list(track([1, 2], progress=False)) == [1, 2]
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_a_missing_or_closed_stream_is_silent(monkeypatch, stream, at_once):
    if stream is not None:
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    assert list(track([1])) == [1]


def test_work_that_is_done_soon_shows_nothing_and_work_that_takes_long_does(monkeypatch):
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    list(track(range(3), label="Short"))
    monkeypatch.setattr(progress, "DELAY", 0.05)
    with progress_bar(None, "Long"):
        time.sleep(0.5)  # nothing advances: the clock shows the bar all the same
    assert "Short" not in terminal.getvalue()
    assert "Long" in terminal.getvalue()


@pytest.mark.parametrize("outer", [True, False])
def test_of_bars_within_bars_the_outermost_speaks(monkeypatch, at_once, outer):
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_bar(2, "Outer", progress=outer), progress_bar(2, "Inner"):
        pass
    assert ("Outer" in terminal.getvalue()) is outer
    assert "Inner" not in terminal.getvalue()


def test_a_long_call_into_compiled_code_shows_that_it_goes_on(monkeypatch, at_once):
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    heard(time.sleep, 0.2)
    assert "Computing" in terminal.getvalue()


def test_track_takes_generators_and_stops_early(monkeypatch, at_once):
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    for item in track((i for i in range(10)), total=10, label="Searching"):
        if item == 3:
            break
    assert "Searching" in terminal.getvalue()


def test_rate_counts_only_this_session(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress_bar(1000, done=900) as bar:
        now[0] = 110.0
        bar.advance(50)
        assert bar.detail() == "5/s"


def test_rich_is_not_imported_until_a_bar_is_shown():
    code = f"{ALONE}; import sys; list(p.track(range(3))); assert 'rich' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, timeout=120).returncode == 0


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_a_pseudo_terminal_gets_a_bar_and_a_pipe_gets_the_output():
    import pty

    code = f"{ALONE}; p.DELAY = 0; print(sum(p.track(range(50), label='Adding')))"
    master, slave = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=slave, env=environment
    )
    os.close(slave)
    shown = []

    def drain():
        try:
            while part := os.read(master, 4096):
                shown.append(part)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=drain)
    reader.start()
    out, _ = process.communicate(timeout=60)
    reader.join(60)
    os.close(master)
    assert out == b"1225\n"
    assert b"Adding" in b"".join(shown)
    assert b"50/50" in b"".join(shown)
