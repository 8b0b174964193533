"""Choose the tests that only continuous integration runs, so that `pytest` ends in time: from measured costs.

    TRACTABLE_MEASURE=folder pytest -m "" && python tools/long_tests.py folder

The first command writes the CPU seconds of every test into `folder` (empty the caches first: a cold run is
what counts). The second keeps the cheapest tests by default, each family by its first member, as many as fit
into `BUDGET`, and lists the others in `tests/long.txt`, which `tests/conftest.py` marks as `thorough`.
"""

import sys
from pathlib import Path

BUDGET = (
    560.0  # CPU seconds: half of two cores for eight minutes; finding tests and other machines take the rest
)
PAGE = Path(__file__).resolve().parent.parent / "tests" / "long.txt"


def costs(folder: Path) -> dict[str, float]:
    """CPU seconds of each test function: of the member that was measured first."""
    found: dict[str, float] = {}
    for path in sorted(folder.iterdir()):
        for line in path.read_text(encoding="utf-8").splitlines():
            name, seconds = line.rsplit("\t", 1)
            found.setdefault(name.split("[")[0], float(seconds))
    return found


def long_ones(seconds: dict[str, float], budget: float = BUDGET) -> list[str]:
    """The costliest functions, without which the others fit into the budget.

    >>> long_ones({"a": 5.0, "b": 1.0, "c": 2.0}, 3.5)
    ['a']
    """
    left = sum(seconds.values())
    chosen = []
    for name, cost in sorted(seconds.items(), key=lambda item: -item[1]):
        if left <= budget:
            break
        chosen.append(name)
        left -= cost
    return sorted(chosen)


if __name__ == "__main__":
    chosen = long_ones(costs(Path(sys.argv[1])))
    PAGE.write_text("".join(f"{name}\n" for name in chosen), encoding="utf-8")
    print(f"{len(chosen)} tests are left to continuous integration.")
