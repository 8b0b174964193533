"""Supports that depend on other latents, and choices that latents decide: sums on fine grids."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import tractable as tr
from tractable.distributions import Bernoulli, DiscreteUniform, Exponential, HalfNormal, Normal, Uniform
from tractable.programs.preparing import prepared
from tractable.programs.structure import find_structure
from tractable.programs.survey import survey


@tr.model
def share(y):
    top = tr.sample("top", Exponential(0.5))
    x = tr.sample("x", Uniform(0.0, top))
    tr.sample("y", Normal(x, 0.5), obs=y)


def _share_oracle(y):
    """The evidence and the mean of the top: the inner integral is a difference of normal tails."""
    top = np.linspace(1e-5, 70, 200_001)
    inner = (stats.norm.cdf(top, y, 0.5) - stats.norm.cdf(0, y, 0.5)) / top * 0.5 * np.exp(-0.5 * top)
    total = np.trapezoid(inner, top)
    return np.log(total), np.trapezoid(inner * top, top) / total


def test_a_uniform_below_an_unknown_top_agrees_with_quadrature():
    post = tr.infer(share, 1.3, key=0)
    evidence, top = _share_oracle(1.3)
    np.testing.assert_allclose(float(post.log_evidence.value), evidence, atol=1e-4)
    assert abs(post["top"].mean() - top) < 4 * post["top"].std() / np.sqrt(post["top"].size)
    assert (post["x"] < post["top"]).all()
    assert (post["x"] > 0).all()


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["nuts", "svi"])
def test_other_methods_move_too(method):
    post = tr.infer(share, 1.3, key=0, method=method, progress=False)
    evidence, top = _share_oracle(1.3)
    error = 4 * float(post.log_evidence.standard_error)
    assert abs(float(post.log_evidence.value) - evidence) < error
    if method == "nuts":
        row = post.summary(["top"])
        assert abs(row["mean"]["top"] - top) < 4 * row["mcse"]["top"]


@pytest.mark.thorough
def test_an_ordered_chain_of_uniforms():
    """x1 < x2 < x3, each uniform between the last and one: the density is the product of 1 / (1 - x)."""

    @tr.model
    def chain(y):
        def step(low, seen):
            x = tr.sample("x", Uniform(low, 1.0))
            tr.sample("y", Normal(x, 0.2), obs=seen)
            return x, None

        tr.scan("t", step, jnp.zeros(()), y)

    y = np.array([0.3, 0.5, 0.8])
    post = tr.infer(chain, y, key=0, progress=False)
    x = (np.arange(400) + 0.5) / 400
    like = [stats.norm.pdf(each, x, 0.2) for each in y]
    later = x[None, :] > x[:, None]
    tail = (later * like[2][None]).sum(1) / 400 / (1 - x)  # over x3, given x2
    middle = (later * (like[1] * tail)[None]).sum(1) / 400 / (1 - x)  # over x2, given x1
    total = (like[0] * middle).sum() / 400
    mean = (x * like[0] * middle).sum() / 400 / total
    rows = post.summary(["x[0]"])
    assert abs(rows["mean"]["x[0]"] - mean) < 4 * rows["mcse"]["x[0]"] + 0.003  # of the grid
    assert (np.diff(post["x"], axis=-1) > 0).all()
    assert post.verdict.ok


@pytest.mark.cheap
def test_a_support_that_a_summed_latent_moves_is_refused():
    @tr.model
    def both(y):
        k = tr.sample("k", DiscreteUniform(1, 3))
        x = tr.sample("x", Uniform(0.0, 1.0 * k))
        tr.sample("y", Normal(x, 1.0), obs=y)

    bound = both.bind(0.5)
    facts = survey(bound)
    with pytest.raises(
        ValueError, match=r"`x` must be of a support.*got Uniform that depends on k.*test_moving"
    ):
        prepared(bound, facts, find_structure(facts))


@tr.model
def choice(y):
    spread = tr.sample("spread", HalfNormal(1.0))
    a, b = tr.sample("a", Bernoulli(0.3)), tr.sample("b", Bernoulli(0.6))
    tr.sample("y", Normal(1.0 * jnp.where(spread > 1.0, a, b), spread), obs=y)


def test_a_choice_that_a_remaining_latent_decides_is_not_taken_as_made():
    post = tr.infer(choice, 0.4, key=0)
    s = np.linspace(1e-5, 12, 200_001)
    zero, one = (stats.norm.pdf(0.4, m, s) for m in (0.0, 1.0))
    density = 2 * stats.norm.pdf(s) * np.where(s > 1, 0.3 * one + 0.7 * zero, 0.6 * one + 0.4 * zero)
    np.testing.assert_allclose(float(post.log_evidence.value), np.log(np.trapezoid(density, s)), atol=1e-3)
