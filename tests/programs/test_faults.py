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
from tractable.programs.methods import METHODS, Task
from tractable.programs.time_budget import plan_within

CHECKED = pytest.mark.skipif("TRACTABLE_CHECKED" in os.environ, reason="the type checker speaks first")


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


def _spread(y):
    mean = tr.sample("mean", Normal(0.0, 1.0))
    with tr.plate("row", 2):
        tr.sample("y", Normal(mean, y), obs=np.zeros(2))


def _index(y):
    with tr.plate("group", 2):
        mean = tr.sample("mean", Normal(0.0, 1.0))
    with tr.plate("row", 2):
        tr.sample("y", Normal(mean[jnp.asarray([1, 2])], 1.0), obs=y)


def _drawn_size(y):
    count = tr.sample("count", DiscreteUniform(1, 3))
    with tr.plate("row", count):
        tr.sample("y", Normal(0.0, 1.0))


def _empty(y):
    with tr.plate("row", 0):
        tr.sample("y", Normal(0.0, 1.0))


def _words(y):
    with tr.plate("row", 2):
        tr.sample("y", Normal(0.0, 1.0), obs=["a", "b"])


def _turned(y):
    tr.sample(Normal(0.0, 1.0), "mean")


def _missing(y):
    slope = tr.sample("slope", Normal(0.0, 1.0))
    with tr.plate("row", 2):
        tr.sample("y", Normal(slope * jnp.log(y), 1.0), obs=np.zeros(2))


def _negative(y):
    spread = tr.sample("spread", Normal(0.0, 1.0))
    tr.sample("y", Normal(0.0, spread), obs=y[0])


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (
            _spread,
            ValueError,
            "a `scale` of its Normal that is positive and finite; got -2.0 at index 1",
        ),
        (_index, ValueError, "`index` must be from 0 to 1 (an axis of 2); got 2 at"),
        pytest.param(_drawn_size, TypeError, "size of plate 'row'` must be known beforehand", marks=CHECKED),
        (_empty, ValueError, "`size of plate 'row'` must be a whole number of at least 1; got 0. At"),
        (_words, TypeError, "`y` must be numbers; got ['a']. At"),
        pytest.param(
            _turned, TypeError, "`name` must be a string, before all else; got Normal", marks=CHECKED
        ),
        (_missing, ValueError, "Its `loc` is nan at index 1 there, and must be finite"),
        (_negative, ValueError, "there, and must be positive and finite: let it be so for all values"),
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


def _alike(y):
    mean, spread = tr.sample("mean", Normal(0.0, 1.0)), tr.sample("spread", HalfNormal(1.0))
    with tr.plate("row", 3):
        tr.sample("y", Normal(mean, spread), obs=y)


def _known(y):
    mean = tr.sample("mean", Normal(0.0, 1.0))
    with tr.plate("row", 3):
        tr.sample("y", Normal(mean, 1.0), obs=y)


def test_errors_of_other_libraries_are_placed():
    def mismatched(x):
        slope = tr.sample("slope", Normal(np.zeros(3), 1.0))
        with tr.plate("row", 4):
            tr.sample("y", Normal(x @ slope, 1.0), obs=np.zeros(4))

    with pytest.raises(TypeError) as caught:
        tr.infer(tr.model(mismatched), np.zeros((4, 2)), key=0)
    note = caught.value.__notes__[0]
    assert re.match(r"In the model `mismatched` at .*test_faults.py:\d+, `.*x @ slope", note)
    assert "x of shape (4, 2)" in note


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda model: tr.infer(model, np.ones(3), key=0, keep=["center"]), "`keep` must be one of 'mean'"),
        (
            lambda model: tr.infer(model.condition({"center": 1.0}), np.ones(3), key=0),
            "sites of the model (mean",
        ),
        (lambda model: tr.infer(model.do({"center": 1.0}), np.ones(3), key=0), "got 'center'"),
        (lambda model: tr.infer(model, [1.0, None, 2.0], key=0), "got None at index 1"),
        (
            lambda model: tr.infer(model, np.zeros(3), key=0),
            "It may be improper, as where a spread may go to zero",
        ),
    ],
)
def test_slips_about_a_model_are_told(change, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        change(tr.model(_alike))


@pytest.mark.cheap
@pytest.mark.parametrize("method", ["auto", "svi", *METHODS])
def test_options_that_a_method_does_not_know_are_named(method):
    with pytest.raises(ValueError, match=r"`options` must be .*progress.*; got '?num_chain"):
        tr.infer(
            tr.model(_known if method == "exact" else _alike), np.arange(3.0), key=0, method=method,
            options={"num_chain": 2},
        )  # fmt: skip


def test_missing_arguments_are_named():
    @tr.model
    def line(x):
        slope = tr.sample("slope", Normal(0.0, 1.0))
        with tr.plate("row", 2):
            tr.sample("y", Normal(slope * x, 1.0), obs=np.zeros(2))

    with pytest.raises(ValueError, match="The argument `x` has NaN at index 1"):
        tr.infer(line, np.array([1.0, np.nan]), key=0)


def test_predictions_at_a_group_that_is_not_there_are_refused():
    @tr.model
    def groups(group, y=None):
        with tr.plate("group", 2):
            mean = tr.sample("mean", Normal(0.0, 1.0))
        with tr.plate("row", 2):
            tr.sample("y", Normal(mean[group], 1.0), obs=y)

    post = tr.infer(groups, np.array([0, 1]), np.ones(2), key=0)
    with pytest.raises(ValueError, match=re.escape("`index` must be from 0 to 1 (an axis of 2); got 5 at")):
        post.predict(group=np.array([0, 5]), key=0)


@CHECKED
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
