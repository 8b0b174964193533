"""One program with one library: prints effective draws and means as JSON, with the time since the start."""

import importlib
import json
import os
import resource
import sys
import time

import numpy as np

from benchmarks._mcmc_measure import bulk_ess, columns, mean_error
from benchmarks._programs_data import DATA, JUDGED


def main(library: str, name: str) -> None:
    """Infer, and judge the named quantities."""
    draws, said = importlib.import_module(f"benchmarks._programs_{library}").draws(name, DATA[name]())
    seconds = time.time() - float(os.environ["BENCHMARK_START"])
    found = dict(columns({key: np.asarray(draws[key], float) for key in JUDGED[name]}))
    sizes = {key: bulk_ess(_in_four(values)) for key, values in found.items()}
    means = {key: (float(values.mean()), mean_error(values)) for key, values in found.items()}
    print(json.dumps({"seconds": seconds, "cpu": _work(), "ess": min(sizes.values()),
                      "said": said, "means": means}))  # fmt: skip


def _in_four(values: np.ndarray) -> np.ndarray:
    """Draws by chain; one run of independent draws as four, less the few that are over."""
    if len(values) > 1:
        return values
    return values.reshape(-1)[: values.size // 4 * 4].reshape((4, -1))


def _work() -> float:
    """Seconds of the processor, those of compilers that were called included."""
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in each)


if __name__ == "__main__":
    main(*sys.argv[1:3])
