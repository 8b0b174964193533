"""Programs in ArviZ: every group, with plates as named axes."""

import numpy as np
import pytest
from scipy.stats import norm

import tractable as tr
from tractable.distributions import HalfCauchy, Normal

SIGMA = np.array([15.0, 10.0, 16.0, 11.0])
Y = np.array([28.0, 8.0, -3.0, 7.0])
SCHOOLS = ["Choate", "Deerfield", "Andover", "Exeter"]


@tr.model
def schools(sigma, y=None):
    mu = tr.sample("mu", Normal(0.0, 5.0))
    tau = tr.sample("tau", HalfCauchy(5.0))
    with tr.plate("school", SCHOOLS):
        theta = tr.sample("theta", Normal(mu, tau))
        tr.sample("y", Normal(theta, sigma), obs=y)
    tr.deterministic("gap", theta[0] - theta[1])


@pytest.fixture(scope="module")
def post():
    return tr.infer(schools, SIGMA, y=Y, key=0)


def test_everything_is_there_with_named_axes(post):
    pytest.importorskip("arviz")
    tree = post.to_arviz(key=1)
    for group in ("posterior", "log_likelihood", "observed_data", "posterior_predictive", "prior",
                  "prior_predictive"):  # fmt: skip
        assert hasattr(tree, group), group
    assert tree.posterior["theta"].dims == ("chain", "draw", "school")
    assert list(tree.posterior.coords["school"].values) == SCHOOLS
    assert tree.posterior["gap"].dims == ("chain", "draw")
    np.testing.assert_array_equal(tree.observed_data["y"].sel(school="Andover"), -3.0)
    theta = tree.posterior["theta"].values
    np.testing.assert_allclose(tree.log_likelihood["y"].values, norm.logpdf(Y, theta, SIGMA), rtol=1e-9)
    np.testing.assert_array_equal(tree.posterior["tau"].values, post["tau"])
    spread = tree.prior_predictive["y"].sel(school="Deerfield").values
    assert np.median(np.abs(spread)) > 5  # mu, theta and the noise together
    again = tree.posterior_predictive["y"].values
    z = (again.mean((0, 1)) - theta.mean((0, 1))) / (again.std((0, 1)) / np.sqrt(again.shape[1]))
    assert np.abs(z).max() < 4.5


def test_names_that_are_taken_are_changed():
    from tractable.programs.interchange import axes_of_program

    @tr.model
    def twice():
        with tr.plate("a", 2):
            tr.sample("a", Normal(0.0, 1.0))
        with tr.plate("b", 2):
            tr.sample("x", Normal(0.0, 1.0))
        with tr.plate("b", 3):
            tr.sample("y", Normal(0.0, 1.0))

    axes = axes_of_program(twice.bind())
    assert axes.dims == {"a": ["a_"], "x": ["b"], "y": ["b_3"]}
    assert axes.coords == {"a_": [0, 1], "b": [0, 1], "b_3": [0, 1, 2]}


def test_draws_that_were_read_from_a_file(post, tmp_path):
    pytest.importorskip("arviz")
    post.save(tmp_path / "post.safetensors")
    again = tr.load(tmp_path / "post.safetensors")
    assert again.to_arviz(key=1).posterior["theta"].shape == (1, 4000, 4)


def test_a_seed_by_name_is_a_key():
    drawn = schools.bind(SIGMA).sample(key=3, num_draws=5)
    assert drawn["y"].shape == (5, 4)
    with pytest.raises(TypeError, match=r"`key` must be a random key"):
        schools.bind(SIGMA).sample(3, 5)


def test_summaries_name_places_by_their_labels():
    @tr.model
    def towns(y):
        with tr.plate("town", ["Ayr", "Bath"]):
            tr.sample("level", Normal(0.0, 1.0))
        tr.sample("y", Normal(0.0, 1.0), obs=y)

    post = tr.infer(towns, 0.3, key=0)
    assert list(post.summary().index) == ["level[Ayr]", "level[Bath]"]
    assert list(post.summary(["level"]).index) == ["level[Ayr]", "level[Bath]"]
    assert post.verdict.sentence in repr(post.summary())
