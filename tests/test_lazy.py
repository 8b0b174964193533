"""Packages that import on demand."""

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import tractable as tr

ROOT = Path(tr.__file__).parent
LAZY = [path.parent.name for path in ROOT.glob("*/__init__.pyi")]


@pytest.mark.parametrize("package", LAZY)
def test_every_export_is_there_once(package):
    stub = ast.parse((ROOT / package / "__init__.pyi").read_text())
    names = Counter(a.name for node in stub.body if isinstance(node, ast.ImportFrom) for a in node.names)
    assert [name for name, count in names.items() if count > 1] == []
    module = getattr(tr, package)
    assert set(module.__all__) == set(names)
    for name in names:
        assert getattr(module, name) is not None


PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py*") if path.parent.name != "cli")
MOST = 720  # names that the packages export together
TWINS = [
    ("distributions", "neural"),
    ("estimators", "latent"),
    ("estimators", "statespace"),
    ("inference", "scale"),
    ("scale", "supervised"),
    ("scale", "tractable"),
    ("graphs", "tractable"),
]


def test_no_two_public_things_share_a_name():
    """But a model and its estimator, a verb and the same verb on many machines, `deterministic`: a node of a
    network, a word of programs, and `cross_entropy`: of two distributions, or of logits with a class."""
    homes: dict[str, dict[int, str]] = {}
    for package in sorted(set(PACKAGES)):
        for name in getattr(tr, package).__all__:
            homes.setdefault(name, {})[id(getattr(getattr(tr, package), name))] = package
    for name in set(tr.__all__) - set(PACKAGES):
        homes.setdefault(name, {})[id(getattr(tr, name))] = "tractable"
    shared = {name: sorted(found.values()) for name, found in homes.items() if len(found) > 1}
    assert {name: found for name, found in shared.items() if tuple(found) not in TWINS} == {}
    for name in (name for name, found in shared.items() if "estimators" in found):
        assert issubclass(getattr(tr.estimators, name), BaseEstimator)


def test_the_library_has_few_doors():
    assert sum(len(getattr(tr, package).__all__) for package in set(PACKAGES)) <= MOST


def test_the_top_level_has_the_packages_the_verbs_and_the_supports():
    assert {"fit", "posterior", "predict", "positive", "simplex", "real", "unit_interval"} <= set(dir(tr))
    assert (ROOT / "py.typed").exists()
    assert tr.positive is tr.core.positive
    for name in tr.__all__:
        assert getattr(tr, name) is not None


def test_an_export_with_the_name_of_its_module_is_the_export():
    from tractable.inference.chains.mcmc import mcmc
    from tractable.inference.variational.pathfinder import pathfinder

    assert tr.inference.mcmc is mcmc is tr.mcmc
    assert tr.inference.pathfinder is pathfinder


def test_unknown_names_are_refused_and_known_ones_listed():
    with pytest.raises(AttributeError, match=r"'tractable.inference' has no attribute 'nonsense'"):
        tr.inference.nonsense
    assert "NUTS" in dir(tr.inference)


def test_a_sampler_does_not_cost_the_import_of_everything():
    code = "import sys, tractable.inference.chains.mcmc; print([m for m in %r if m in sys.modules])"
    heavy = ["scipy.stats", "optax", "sklearn", "pandas", "matplotlib", "numba", "tractable.distributions"]
    done = subprocess.run(
        [sys.executable, "-c", code % heavy], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", "small_while_loop"),
        ("--xla_dump_to=/tmp/x", "--xla_dump_to=/tmp/x --xla_backend_extra_options="),
        ("--xla_backend_extra_options=a=1", "--xla_backend_extra_options=a=1"),
    ],
)
def test_flags_of_the_user_are_kept(given, expected):
    code = "import os, tractable; print(os.environ['XLA_FLAGS'])"
    environment = {"XLA_FLAGS": given, "PATH": "", "PYTHONPATH": str(ROOT.parent), "HOME": "/tmp"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, timeout=120
    )
    assert expected in done.stdout
    assert done.stdout.count("xla_backend_extra_options") == 1


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to a processor")
def test_sums_do_not_depend_on_how_many_processors_a_process_may_use():
    code = (
        "import os, sys; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(sys.argv[1])]);"
        "import tractable, jax.numpy as jnp;"
        "print(float((jnp.arange(65536.0) / 7).reshape(256, 256).sum()).hex())"
    )
    left = ("XLA_FLAGS", "PJRT_NPROC")
    environment = {key: value for key, value in os.environ.items() if key not in left}
    ways = [[sys.executable, "-c", code, count] for count in ("1", "64")]
    found = {
        subprocess.run(way, capture_output=True, check=True, env=environment, timeout=120).stdout
        for way in ways
    }
    assert len(found) == 1
