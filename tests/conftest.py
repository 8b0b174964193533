"""Suite settings: float64, no silent broadcasting, compiled programs kept, families by their first member.

Kinds.       By default a test with parameters runs on the first member of its family; the others are marked
             `thorough`, unless the test says that it is cheap (`@pytest.mark.cheap`), and so are the tests
             of `tests/long.txt`, which `tools/long_tests.py` chooses by their measured cost. `slow` are long
             statistical runs. `pytest -m ""` runs all three kinds, and so does `.ci/run`. A test that is
             named on the command line (`file.py::test`) runs on all members.
Checks.      With `TRACTABLE_CHECKED=1` types are checked at run time and no key may be used twice; `.ci/run`
             sets it. It doubles the time that it takes to find the tests.
"""

import gc
import os
import resource
from collections import Counter
from importlib import metadata
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_CHECKED = os.environ.get("TRACTABLE_CHECKED") == "1"
_MEASURE = os.environ.get("TRACTABLE_MEASURE", "")
_LONG = frozenset((_ROOT / "tests" / "long.txt").read_text(encoding="utf-8").split())

os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_ROOT / ".cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# Two workers share the processors: threads of the linear algebra would wait for each other, and do so busily.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # programs need not know who wrote each line

# Nearly all of the suite's time is spent compiling small programs that run once, so they are compiled without
# effort, each by one thread. Other versions of the compiler may not know the flags and would stop; `.ci/run`
# repeats the tests of digits as users compile them.
if metadata.version("jaxlib").startswith("0.10."):
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
        "--xla_cpu_parallel_codegen_split_count=1",
    )

# Traces make many objects that live long: looking through them as often as by default costs a twentieth.
gc.set_threshold(100_000, 50, 100)

if _CHECKED:
    from jaxtyping import install_import_hook

    _hook = install_import_hook("tractable", "beartype.beartype")

import hypothesis  # noqa: E402
import jax  # noqa: E402
import mpmath  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

import tractable  # noqa: E402, F401

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", _CHECKED)

hypothesis.settings.register_profile("suite", deadline=None, max_examples=25, derandomize=True, database=None)
hypothesis.settings.load_profile("suite")


def pytest_make_parametrize_id(config, val, argname):
    """Bytes are named by their argument: two workers need not agree on them (a gzip file holds its time)."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark all but the first member of each family of parameters, and the long tests, as `thorough`."""
    if any("::" in argument for argument in config.args):
        return
    seen = Counter()
    for item in items:
        function = item.nodeid.split("[")[0]
        seen[function] += 1
        further = seen[function] > 1 and item.get_closest_marker("cheap") is None
        if further or function in _LONG:
            item.add_marker(pytest.mark.thorough)


def pytest_runtest_setup(item):
    if _CHECKED and item.get_closest_marker("plain") is not None:
        pytest.skip("runs without run-time checks")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """With `TRACTABLE_MEASURE` set to a folder, write what each test costs there. Forget compiled programs
    before they are too many: between files, and after long tests of files that make very many."""
    before = _cpu_seconds()
    try:
        return (yield)
    finally:
        cost = _cpu_seconds() - before
        if _MEASURE:
            worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
            with Path(_MEASURE, worker).open("a", encoding="utf-8") as file:
                file.write(f"{item.nodeid}\t{cost:.3f}\n")
        if nextitem is None or nextitem.path != item.path:
            _forget(10_000)
        elif cost > 1.0:
            _forget(30_000)


def _forget(most: int) -> None:
    """Each program takes mappings of memory, of which a process has 65,530 and beyond which it dies."""
    if _num_mappings() > most:
        jax.clear_caches()
        gc.collect()


def _num_mappings() -> int:
    mappings = Path("/proc/self/maps")
    return mappings.read_bytes().count(b"\n") if mappings.exists() else 0


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@pytest.fixture(autouse=True)
def _digits(request):
    """Each test computes its oracle with the digits that its own module asks for, whatever ran before it."""
    with mpmath.workdps(getattr(request.module, "DIGITS", 50)):
        yield


_STATES = {}  # of the generators of test modules, as their modules left them


@pytest.fixture(autouse=True)
def _numbers(request):
    """Each test draws from the generators of its module from their beginning, whatever ran before it."""
    for name, value in vars(request.module).items():
        if isinstance(value, np.random.Generator):
            place = request.module.__name__, name
            value.bit_generator.state = _STATES.setdefault(place, value.bit_generator.state)


@pytest.fixture(scope="session")
def oracles() -> Path:
    """The folder of reference answers beside the project; tests that need it are skipped where it is
    absent."""
    folder = _ROOT.parent / "shared" / "oracles"
    if not folder.is_dir():
        pytest.skip(f"reference answers are not at {folder}")
    return folder
