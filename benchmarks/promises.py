"""`python -m benchmarks promises [NAME ...]`: what `tractable fit` promises, in processes of its own.

`bytes`     the same seed writes the same model, report and JSON (but for seconds) with one thread, with two,
            and beside a busy process;
`limit`     `--seconds 30` on 200,000 x 30 rows: seconds and megabytes;
`cold`      empty caches: the first model of 500 x 10, the end of 2,000 x 20;
`wide`      5,000 columns, and 5,000 levels in one column;
`faults`    files that cannot be used, and some that can: the exit code, the sentence, seconds;
`kills`     twenty processes killed at random times leave no half-written file.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

_COMMAND = [sys.executable, "-m", "tractable"]
_KILLS = 20


class Ended(NamedTuple):
    """How a process ended: its code, streams, seconds of the clock and of processors, and megabytes."""

    code: int
    out: str
    err: str
    seconds: float
    work: float
    megabytes: float
    first: float  # seconds of processors until the first line of the error stream


def run(words: Sequence[str], before: Sequence[str] = (), **environment: str) -> Ended:
    """Run `tractable` with these words."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        command = [*before, *_COMMAND, *map(str, words)]
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.PIPE, text=True, env=os.environ | environment
        )
        assert process.stderr is not None
        line = process.stderr.readline()
        first = _work(process.pid) if line else float("nan")
        err = line + process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        work = used.ru_utime + used.ru_stime
        return Ended(
            process.returncode, out.read(), err, time.monotonic() - start, work, used.ru_maxrss / 1024, first
        )


def _work(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def table(rows: int, columns: int, seed: int = 0) -> pd.DataFrame:
    """Numbers, the first of which say something about the last, and a column of words."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    frame = pd.DataFrame(X.round(4), columns=[f"x{j}" for j in range(columns)])
    frame["word"] = rng.choice(["red", "green", "blue"], rows)
    noise = np.exp(0.3 * X[:, 1]) * rng.normal(size=rows)
    return frame.assign(y=(2 * X[:, 0] + np.sin(2 * X[:, 1]) + (frame["word"] == "red") + noise).round(4))


def same_bytes(folder: Path) -> None:
    """One thread, two, and beside a busy process."""
    file = folder / "rows.csv"
    table(300, 5).to_csv(file, index=False)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    ways: dict[str, tuple[tuple[str, ...], dict[str, str], bool]] = {
        "as it is": ((), {}, False),
        "one thread": ((), dict.fromkeys(names, "1"), False),
        "two threads": ((), dict.fromkeys(names, "2"), False),
        "one processor": (("taskset", "-c", "0"), {}, False),
        "under load": ((), {}, True),
    }
    found = {}
    for name, (before, environment, loaded) in ways.items():
        with _busy(loaded):
            ended = run(["fit", file, "-y", "y", "--out", folder / "out", "--json"], before, **environment)
        found[name] = _digests(ended, folder / "out")
        same = found[name] == found["as it is"]
        print(
            f"bytes: {name:14} {'the same' if same else f'OTHERS {found[name]}'}, {ended.work:.0f} s of work"
        )


def _digests(ended: Ended, folder: Path) -> tuple[str, ...]:
    told = json.loads(ended.out)
    for model in told["models"]:
        model.pop("seconds")
    parts = (
        json.dumps(told).encode(),
        *((folder / n).read_bytes() for n in ("model.tractable", "report.html")),
    )
    return tuple(hashlib.sha256(part).hexdigest()[:12] for part in parts)


@contextmanager
def _busy(loaded: bool) -> Iterator[None]:
    count = 2 if loaded else 0
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def limit(folder: Path) -> None:
    """A large table within thirty seconds."""
    file = folder / "large.csv"
    table(200_000, 29).to_csv(file, index=False)
    start = run(["--version"]).seconds
    ended = run(["fit", file, "-y", "y", "--seconds", "30", "--out", folder / "out", "--json"])
    told = json.loads(ended.out)
    print(
        f"limit: code {ended.code}, {ended.seconds:.1f} s ({ended.work:.1f} of work; start {start:.1f}), "
        f"{ended.megabytes:.0f} MB, winner {told['winner']}, "
        f"coverage {told['metrics']['coverage_90']:.3f}, log-score {told['metrics']['log_score']:.3f}"
    )


def cold(folder: Path) -> None:
    """From empty caches."""
    for rows, columns in ((500, 9), (2000, 19)):
        file, cache = folder / f"{rows}.csv", folder / f"cache{rows}"
        table(rows, columns).to_csv(file, index=False)
        words = ["fit", file, "-y", "y", "--out", folder / "out"]
        ended = run(words, XDG_CACHE_HOME=str(cache), NUMBA_CACHE_DIR=str(cache / "numba"))
        size = (folder / "out" / "report.html").stat().st_size / 1e6
        print(
            f"cold: {rows} x {columns + 1}: first model after {ended.first:.1f} s of work, end after "
            f"{ended.seconds:.1f} s ({ended.work:.1f} of work), {ended.megabytes:.0f} MB, report {size:.1f}"
        )


def wide(folder: Path) -> None:
    """Five thousand columns, and five thousand levels."""
    rng = np.random.default_rng(0)
    file = folder / "wide.csv"
    table(300, 5000).to_csv(file, index=False)
    levels = rng.integers(0, 5000, 20_000)
    effects = rng.normal(size=5000)
    frame = pd.DataFrame({"level": [f"k{k:04d}" for k in levels], "x": rng.normal(size=20_000)})
    many = folder / "levels.csv"
    frame.assign(y=frame["x"] + effects[levels] + rng.normal(size=20_000)).to_csv(many, index=False)
    for path in (file, many):
        ended = run(["fit", path, "-y", "y", "--out", folder / "out", "--json"])
        told = json.loads(ended.out)
        size = (folder / "out" / "report.html").stat().st_size / 1e6
        print(
            f"wide: {path.stem}: code {ended.code}, {ended.seconds:.0f} s ({ended.work:.0f} of work), "
            f"{ended.megabytes:.0f} MB, winner {told['winner']}, score {told['metrics']['log_score']:.3f}, "
            f"report {size:.2f} MB"
        )


def faults(folder: Path) -> None:
    """What cannot be used is one sentence, soon."""
    plain = table(60, 2)
    text = plain.to_csv(index=False)
    files = {
        "empty": b"", "one row": text.encode().split(b"\n")[0] + b"\n1,2,red,3\n",
        "one column": plain[["y"]].to_csv(index=False).encode(),
        "constant target": plain.assign(y=1).to_csv(index=False).encode(),
        "no target": plain.drop(columns="y").to_csv(index=False).encode(),
        "target missing": plain.assign(y=np.nan).to_csv(index=False).encode(),
        "unclosed quote": text.replace("red", '"red', 1).encode(),
        "mixed encodings": text.replace("red", "röd").encode() + "1,2,röd,3\n".encode("latin-1"),
        "zero bytes": text.encode() + b"\0" * 100,
        "a picture": b"\x89PNG\r\n\x1a\n" + os.urandom(1000),
    }  # fmt: skip
    for name, raw in files.items():
        (folder / f"{name}.csv").write_bytes(raw)
    (folder / "a folder.csv").mkdir()
    with open(folder / "two gigabytes.csv", "wb") as file:
        file.write(text.encode())
        file.truncate(2 << 30)
    for name in (*files, "a folder", "two gigabytes"):
        ended = run(["fit", folder / f"{name}.csv", "-y", "y", "--effort", "low", "--out", folder / "out"])
        said = ended.err.strip().splitlines()[-1:] if ended.code else ["answered"]
        print(
            f"faults: {name:16} code {ended.code}, {ended.seconds:.1f} s ({ended.work:.1f} of work): {said}"
        )


def kills(folder: Path) -> None:
    """Nothing half-written, whenever it is killed."""
    from tractable.race.result import TableFit

    file, out, rng = folder / "rows.csv", folder / "out", np.random.default_rng(0)
    table(120, 3).to_csv(file, index=False)
    words = ["fit", str(file), "-y", "y", "--seconds", "2", "--out", str(out)]
    whole = run(words).seconds
    seen = {"none": 0, "both": 0, "model alone": 0}
    for _ in range(_KILLS):
        for path in out.iterdir():
            path.unlink()
        process = subprocess.Popen([*_COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole * rng.uniform(0.5, 1.05))
        process.kill()
        process.wait()
        names = {path.name for path in out.iterdir()}
        assert names <= {"model.tractable", "report.html"}, names
        if "model.tractable" in names:
            TableFit.load(out / "model.tractable")
        if "report.html" in names:
            assert (out / "report.html").read_text().rstrip().endswith("</html>")
        seen["none" if not names else "both" if len(names) == 2 else "model alone"] += 1
    print(f"kills: {_KILLS} within {whole:.0f} s: {seen}; every file that was there was whole")


PROMISES: dict[str, Any] = {
    "bytes": same_bytes, "limit": limit, "cold": cold, "wide": wide, "faults": faults, "kills": kills,
}  # fmt: skip


def main(options: Sequence[str]) -> None:
    """Keep the promises that are named, or all."""
    for name in options or PROMISES:
        with tempfile.TemporaryDirectory() as folder:
            PROMISES[name](Path(folder))
