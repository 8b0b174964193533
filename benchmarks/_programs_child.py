"""One program with one library: prints effective draws and means as JSON, with the time since the start."""

import importlib
import json
import os
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
    sizes = {
        key: bulk_ess(values if len(values) > 1 else values.reshape((4, -1))) for key, values in found.items()
    }
    means = {key: (float(values.mean()), mean_error(values)) for key, values in found.items()}
    print(json.dumps({"seconds": seconds, "cpu": time.process_time(), "ess": min(sizes.values()),
                      "said": said, "means": means}))  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:3])
