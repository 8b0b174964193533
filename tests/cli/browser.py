"""A headless Chromium for tests, spoken to through two pipes: no port and no driver.

The protocol is that of the developers' tools: messages of JSON, each ended by a zero byte. All that a page
logs, throws and asks for is kept. Every wait has an end: an answer has a minute, however much else the
browser says meanwhile, and at the end of the block it is killed with all of its processes.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["Browser", "chromium"]

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--mute-audio",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
_PATIENCE = 60.0  # seconds that an answer may take
_BEGIN = (  # Chromium reads stream 3 and writes stream 4
    "import fcntl, os, sys\n"
    "ends = [fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3]]\n"
    "for place, end in enumerate(ends, 3):\n"
    "    os.dup2(end, place)\n"
    "    os.close(end)\n"
    "os.execv(sys.argv[3], sys.argv[3:])\n"
)


def chromium() -> str | None:
    """Where it is, if it is here."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """A browser with one page, ended with the block."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.faults: list[Any] = []  # what the page logged or threw
        self.requests: list[str] = []  # addresses that it asked for
        self._count, self._session = 0, {}

    def __enter__(self) -> "Browser":
        (read, self._down), (self._up, write) = os.pipe(), os.pipe()
        command = [chromium(), *_FLAGS, f"--user-data-dir={self.folder / 'profile'}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", _BEGIN, str(read), str(write), *map(str, command)],
            pass_fds=(read, write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(read)
        os.close(write)
        self._messages = self._received()
        try:
            self._open_page()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):  # a group of its own; its profile is thrown away: nothing is lost
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_PATIENCE)
        os.close(self._down)
        os.close(self._up)

    def _open_page(self) -> None:
        page = self.ask("Target.createTarget", url="about:blank")["targetId"]
        found = self.ask("Target.attachToTarget", targetId=page, flatten=True)
        self._session = {"sessionId": found["sessionId"]}
        for domain in ("Network", "Runtime", "Log", "Page"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **given: Any) -> dict[str, Any]:
        """The answer to one command."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": given, **self._session}
        os.write(self._down, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + _PATIENCE
        for found in self._messages:
            assert time.monotonic() < end, f"the browser talks, but does not answer {method}"
            if found.get("id") == self._count:
                assert "error" not in found, f"{method}: {found['error']}"
                return found["result"]
        raise AssertionError(f"the browser ended at {method}")

    def show(self, page: Path, width: int, height: int = 800, *, phone: bool = False) -> None:
        """Load a page from its file, and wait until all of it is there."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, mobile=phone,
                 deviceScaleFactor=2 if phone else 1)  # fmt: skip
        assert "errorText" not in self.ask("Page.navigate", url=page.as_uri())
        # Asked again and again: a promise made in a document that is about to be left is never kept.
        end = time.monotonic() + _PATIENCE
        while self.run("[location.href, document.readyState]") != [page.as_uri(), "complete"]:
            assert time.monotonic() < end, f"the browser did not load {page}"
            time.sleep(0.05)

    def run(self, program: str) -> Any:
        """The value of JavaScript in the page."""
        found = self.ask("Runtime.evaluate", expression=program, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def photograph(self, path: Path) -> None:
        """All of the page as a picture."""
        found = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(b64decode(found["data"]))

    def print(self, path: Path) -> None:
        """The page as it prints."""
        path.write_bytes(b64decode(self.ask("Page.printToPDF", preferCSSPageSize=True)["data"]))

    def _received(self) -> Iterator[dict[str, Any]]:
        rest = b""
        while True:
            assert select.select([self._up], [], [], _PATIENCE)[0], "the browser is silent"
            if not (piece := os.read(self._up, 1 << 16)):
                return
            *whole, rest = (rest + piece).split(b"\0")
            for message in map(json.loads, whole):
                self._keep(message)
                yield message

    def _keep(self, message: dict[str, Any]) -> None:
        name, told = message.get("method"), message.get("params", {})
        if name == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif name in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.faults.append(told)
