"""One workload of one library in a process of its own."""

import json
import subprocess
import sys


def measure(child: str, workload: str, library: str, limit: float) -> dict:
    """What `python -m benchmarks.CHILD WORKLOAD LIBRARY` reports as its last line of JSON."""
    command = [sys.executable, "-m", f"benchmarks.{child}", workload, library]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"verdict": f"over {limit:g} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    reason = (done.stderr.strip().splitlines() or ["ended early"])[-1][:60]
    return json.loads(lines[-1]) if lines else {"verdict": reason}
