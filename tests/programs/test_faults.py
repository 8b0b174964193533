"""What is said where a program is wrong: site, line, what to do; and what a budget of time gives up."""

import os
import re
import time

import jax.numpy as jnp
import numpy as np
import pytest

import tractable as tr
from tractable.distributions import Bernoulli, DiscreteUniform, HalfNormal, Normal, Poisson, Uniform
from tractable.messages import TooLarge
from tractable.programs import Flat
from tractable.programs.methods import Task
from tractable.programs.time_budget import plan_within


def _twice(y):
    tr.sample("a", Normal(0.0, 1.0))
    tr.sample("a", Normal(0.0, 1.0))


def _outside(y):
    spread = tr.sample("spread", HalfNormal(1.0))
    with tr.plate("row", 2):
        tr.sample("y", HalfNormal(spread), obs=y)


def _above(y):
    top = tr.sample("top", HalfNormal(1.0))
    with tr.plate("row", 2):
        tr.sample("y", Uniform(0.0, top), obs=y)


def _misfit(y):
    mean = tr.sample("mean", Normal(0.0, 1.0))
    with tr.plate("row", 3):
        tr.sample("y", Normal(mean, 1.0), obs=y)


def _axes(y):
    mean = tr.sample("mean", Normal(np.zeros(3), 1.0))
    with tr.plate("row", 2):
        tr.sample("y", Normal(mean, 1.0), obs=y)


def _tied(y):
    with tr.plate("coin", 40):
        heads = tr.sample("heads", Bernoulli(0.5))
    tr.sample("y", Normal(1.0 * heads.sum(), 1.0), obs=y[0])


def _endless(y):
    count = tr.sample("count", Poisson(3.0))
    tr.sample("y", Normal(1.0 * count, 1.0), obs=y[0])


def _branch(y):
    mean = tr.sample("mean", Normal(0.0, 1.0))
    if mean > 0:
        mean = 2 * mean
    tr.sample("y", Normal(mean, 1.0), obs=y[0])


def _loop(y):
    count = tr.sample("count", DiscreteUniform(1, 3))
    for _ in range(int(count)):
        y = y + 1
    tr.sample("y", Normal(1.0 * count, 1.0), obs=y[0])


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (_twice, ValueError, "used once in a model; got 'a'. The other is at"),
        (_outside, ValueError, "`y` must be zero or positive, and finite; got -2.0 at index 1"),
        (_above, ValueError, "`y` must be possible under the model; got log-density -inf at index"),
        (_misfit, ValueError, "`y` must be of shape (3,); got shape (2,)"),
        (_axes, ValueError, "one for each place of its plates (row of 2); got leading axes (3,)"),
        (_tied, TooLarge, "since it depends on 'heads' (40 elements). Observe some of them"),
        (_endless, ValueError, "`count` must be of finitely many values known beforehand"),
        (_branch, TypeError, "Use `jax.numpy.where(condition, a, b)`"),
        (_loop, TypeError, "Use `jax.numpy`"),
    ],
)
def test_faults_name_the_site_the_line_and_the_way_out(function, kind, words):
    with pytest.raises(kind, match=re.escape(words)) as caught:
        tr.infer(tr.model(function), np.array([1.0, -2.0]), key=0)
    assert "test_faults.py:" in str(caught.value)


@pytest.mark.skipif("TRACTABLE_CHECKED" in os.environ, reason="the type checker speaks first")
def test_a_missing_key_is_asked_for():
    with pytest.raises(TypeError, match=re.escape("Give a random key, such as `jax.random.key(0)`")):
        tr.infer(tr.model(_misfit), np.zeros(3))


def test_an_improper_posterior_is_told_by_its_sites():
    @tr.model
    def improper(y):
        a, b = tr.sample("a", Flat()), tr.sample("b", Flat())
        tr.sample("y", Normal(a + b, 1.0), obs=y)

    post = tr.infer(improper, 1.0, key=0)
    assert not post.verdict.ok
    assert re.search(r"Improper: .*`a` at .*test_faults.py:\d+, `b` at ", post.verdict.sentence)


# --- budgets of time -----------------------------------------------------------------------------------


class _Bowl:
    """A density whose gradient takes no time."""

    def __call__(self, x):
        return -0.5 * (x["a"] ** 2).sum()


@pytest.mark.cheap
@pytest.mark.parametrize(("seconds", "method"), [(1e6, "nuts"), (1e-3, "pathfinder")])
def test_a_budget_decides_on_the_method(seconds, method):
    bowl = _Bowl()
    task = Task(bowl, None, {"a": jnp.zeros(3)}, None)
    plan = plan_within(seconds, time.monotonic(), task, "nuts", None)
    assert plan.method == method
    assert ("nothing was given up" in plan.said) == (method == "nuts")


@pytest.mark.thorough
def test_a_budget_is_kept_and_told():
    @tr.model
    def bends(y):
        x = tr.sample("x", Normal(np.zeros(3), 1.0))
        tr.sample("y", Normal(jnp.tanh(x).sum(), 0.5), obs=y)

    post = tr.infer(bends, 1.0, key=0, keep=["x"], seconds=0.1, progress=False)
    assert "Chains were given up for Pathfinder" in repr(post.explain())
    assert "Method: pathfinder" in repr(post.explain())
