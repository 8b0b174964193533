"""`python -m benchmarks._mcmc_child LIBRARY VARIANT PROBLEM`: one library on one problem, alone in a process.

Prints one line of JSON. The clock starts when the parent starts the process (`BENCHMARK_START`), so that
the cold time holds the interpreter, the imports, the compilation, the sampling and the summary.
"""

import json
import os
import resource
import sys
import time

started = float(os.environ.get("BENCHMARK_START", time.time()))


def main(library: str, variant: str, name: str) -> None:
    """Measure a first run, a second with another seed, and count gradients."""
    from benchmarks._mcmc_problems import PROBLEMS

    problem = PROBLEMS[name]()
    if library == "tractable":
        from benchmarks._mcmc_tractable import sampler
    else:
        from benchmarks._mcmc_peers import SAMPLERS

        sampler = SAMPLERS[library]
    from benchmarks._mcmc_measure import least_ess, split_rhat

    try:
        run = sampler(problem, variant)
    except ImportError as error:
        print(json.dumps({"absent": str(error)}))
        return
    measured = []
    for seed in (1, 2):
        begin, processor = (started, 0.0) if seed == 1 else (time.time(), _processor_seconds())
        answer = run(seed)
        ess, worst = least_ess(answer.draws)
        measured.append(
            {
                "seconds": time.time() - begin,
                "processor_seconds": _processor_seconds() - processor,
                "ess": ess,
                "worst": worst,
                "rhat": split_rhat(answer.draws),
                "divergences": answer.divergences,
                "gradients": answer.num_gradients,
            }
        )
    if measured[0]["gradients"] is None:
        counted = run(2, count=True)
        measured[0]["gradients"] = measured[1]["gradients"] = counted.num_gradients
    print(json.dumps({"cold": measured[0], "warm": measured[1], "load": os.getloadavg()[0]}))


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(*sys.argv[1:])
