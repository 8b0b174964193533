"""Models are pytrees: what a fit returns passes through `jit`, `vmap` and `grad`, or is a `HostResult`; and
comes back from a file as it was."""

import importlib
import inspect
import pkgutil
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tractable.gp
import tractable.supervised
from tests.laws.cases_models import CASES, NEW
from tractable.core.module import HostResult, Module
from tractable.core.storage import load, save

BY_NAME = {case.name: case for case in CASES}
ANSWERS = ("predict", "predict_dist", "predict_proba", "decision", "decisions", "probability", "latent")


@cache
def fitted(name):
    return BY_NAME[name].build(0)


def arrays(model):
    """The model with every number in it an array of JAX."""
    return jax.tree.map(jnp.asarray, model)


def rows_of(case):
    return jnp.asarray(NEW if case.rows is None else case.rows)


def twin_of(name, model):
    """The model of other targets where it has the same shape, else the same one."""
    other = arrays(BY_NAME[name].build(1))
    same = jax.tree.structure(other) == jax.tree.structure(model) and all(
        a.shape == b.shape for a, b in zip(jax.tree.leaves(other), jax.tree.leaves(model))
    )
    return other if same else model


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_models_pass_through_transformations(name):
    case = BY_NAME[name]
    model, rows = arrays(fitted(name)), rows_of(case)
    eager = np.asarray(case.answer(fitted(name), np.asarray(rows)))
    assert np.isfinite(eager).all()
    np.testing.assert_allclose(jax.jit(case.answer)(model, rows), eager, rtol=1e-9, atol=1e-11)

    twin = twin_of(name, model)
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), model, twin)
    several = jax.vmap(case.answer, in_axes=(0, None))(stack, rows)
    single = [case.answer(each, rows) for each in (model, twin)]
    np.testing.assert_allclose(several, np.stack([np.asarray(s) for s in single]), rtol=1e-9, atol=1e-11)

    floats, rest = eqx.partition(model, eqx.is_inexact_array)

    def total(floats, rows):
        return jnp.asarray(case.answer(eqx.combine(floats, rest), rows)).sum()

    slopes = jax.jit(jax.grad(total, (0, 1)))(floats, rows)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(slopes)]
    assert leaves
    assert all(np.isfinite(leaf).all() for leaf in leaves)


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_models_come_back_from_a_file(name, tmp_path):
    case = BY_NAME[name]
    save(tmp_path / "model", fitted(name))
    again = load(tmp_path / "model")
    assert repr(again) == repr(fitted(name))
    before = np.asarray(case.answer(fitted(name), np.asarray(rows_of(case))))
    np.testing.assert_array_equal(np.asarray(case.answer(again, np.asarray(rows_of(case)))), before)


def model_classes():
    found = set()
    for package in (tractable.supervised, tractable.gp):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, thing in vars(importlib.import_module(info.name)).items():
                is_own = inspect.isclass(thing) and thing.__module__ == info.name and name[0] != "_"
                made = is_own and issubclass(thing, Module) and not inspect.isabstract(thing)
                if made and any(hasattr(thing, a) for a in ANSWERS):
                    found.add(thing)
    return sorted(found, key=lambda cls: cls.__name__)


# Parts of models, and posteriors that are stacks of registered ones.
PARTS = {
    "AsymmetricMachine",
    "HyperparameterAverage",
    "HyperparameterPosterior",
    "LatentPosterior",
    "LinearPosterior",
    "Link",
    "Logistic",
    "Probit",
}


def test_every_model_is_registered_or_a_host_result():
    seen = {type(fitted(case.name)) for case in CASES}
    left = [cls.__name__ for cls in model_classes() if cls not in seen and not issubclass(cls, HostResult)]
    assert set(left) <= PARTS
