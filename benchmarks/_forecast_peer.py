"""`python -m benchmarks._forecast_peer MODEL`: statsforecast's answers to tasks on standard input.

It imports nothing of the project, so that the interpreter of another environment may run it. Each line in is
a task (readings, season, steps); each line out its quantiles and the processor time.
"""

import json
import sys
import time
import warnings

import numpy as np

LEVELS = (95, 90, 85, 75, 65, 55, 45, 35, 25, 15, 5)


def main() -> None:
    """Answer task by task; one that fails says why."""
    from statsforecast import models

    warnings.filterwarnings("ignore")
    made = getattr(models, sys.argv[1])
    for line in sys.stdin:
        task = json.loads(line)
        began = time.process_time()
        try:
            found = made(season_length=task["season"]).forecast(
                np.array(task["y"]), task["steps"], level=list(LEVELS)
            )
            ends = {}
            for level in LEVELS:
                ends[f"{0.5 - level / 200:.3f}"] = np.asarray(found[f"lo-{level}"], float).tolist()
                ends[f"{0.5 + level / 200:.3f}"] = np.asarray(found[f"hi-{level}"], float).tolist()
            answer = {"mean": np.asarray(found["mean"], float).tolist(), "quantiles": ends}
        except Exception as error:  # whatever a library raises is its answer
            answer = {"failed": str(error)[:80]}
        print(json.dumps(answer | {"seconds": time.process_time() - began}), flush=True)


if __name__ == "__main__":
    main()
