"""Pictures of programs: graphs with plates, and the posterior of every method."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

import tractable as tr
from tractable.distributions import Bernoulli, Categorical, Gamma, HalfNormal, Normal, Poisson
from tractable.plots.program_layout import lines_of
from tractable.programs.drawing import program_graph

Y = np.array([1.0, 2.0, 4.0])


@tr.model
def nested(y):
    mean = tr.sample("mean", Normal(0.0, 1.0))
    width = tr.param("width", 1.0, "positive")
    with tr.plate("school", ["a", "b"]):
        level = tr.sample("level", Normal(mean, width))
        with tr.plate("pupil", 3):
            tr.sample("score", Normal(level[:, None], 1.0), obs=y)
    gap = tr.deterministic("gap", level[0] - level[1])
    with tr.plate("school", 2):
        tr.sample("other", Bernoulli(logits=gap))
    tr.factor("push", -(mean**2))


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_the_graph_has_direct_parents_only():
    graph = program_graph(nested.bind(np.zeros((2, 3))))
    assert graph.parents == {
        "mean": (), "width": (), "level": ("mean", "width"), "score": ("level",), "gap": ("level",),
        "other": ("gap",), "push": ("mean",),
    }  # fmt: skip
    assert graph.chained == frozenset()
    frames = [(tuple(plate.name for plate in path), names) for path, names in graph.frames.items()]
    assert (("school",), ["level", "score"]) in frames
    assert (("school", "pupil"), ["score"]) in frames


def test_observed_sites_are_shaded_computed_ones_dashed_and_plates_hold_their_own():
    ax = tr.draw(nested, np.zeros((2, 3)))
    parts = {patch.get_gid(): patch for patch in ax.patches}
    assert {"mean->level", "level->score", "level->gap", "gap->other", "pupil: 3"} <= set(parts)
    assert parts["score"].get_facecolor()[0] < 0.9 < parts["level"].get_facecolor()[0]
    assert parts["gap"].get_linestyle() == "--"
    boxes = {label: parts[label].get_window_extent() for label in ("pupil: 3", "score", "level", "mean")}
    pupil = boxes["pupil: 3"]
    for name, inside in (("score", True), ("level", False), ("mean", False)):
        middle = (boxes[name].x0 + boxes[name].x1) / 2, (boxes[name].y0 + boxes[name].y1) / 2
        assert pupil.contains(*middle) == inside, name


def test_chains_have_a_bow_and_names_are_in_lines():
    moves = jnp.array([[0.9, 0.1], [0.2, 0.8]])

    @tr.model
    def chain(y):
        def step(state, reading):
            state = tr.sample("state", Categorical(moves[state]))
            tr.sample("y", Normal(1.0 * state, 1.0), obs=reading)
            return state, None

        tr.scan("time", step, jnp.array(0), y)

    assert "state->state" in {patch.get_gid() for patch in tr.draw(chain, Y).patches}
    assert lines_of("centred_intercept") == ["centred_", "intercept"]
    assert lines_of("x") == ["x"]


@tr.model
def counts(y):
    shape = tr.sample("shape", HalfNormal(2.0))
    with tr.plate("row", len(y)):
        rate = tr.sample("rate", Gamma(shape, 1.0))
        tr.sample("y", Poisson(rate), obs=y)


@tr.model
def exact(y):
    rate = tr.sample("rate", Gamma(2.0, 1.0))
    with tr.plate("row", len(y)):
        tr.sample("y", Poisson(rate), obs=y)


METHODS = ["exact", "quadrature", "nuts", "laplace", "vi", "smc", "importance"]


@pytest.mark.parametrize("method", METHODS)
def test_every_posterior_has_its_pictures(method):
    model = exact if method == "exact" else counts
    few = {} if method in ("laplace", "vi") else {"num_draws": 200}
    post = tr.infer(model, Y.astype(int), key=0, method=method, progress=False, **few)
    for kind in ("marginal", "intervals", "trace", "graph"):
        drawn = tr.plot(post, kind=kind)
        assert drawn is not None
    checks = tr.plot(post, kind="checks", key=1)
    assert checks[0].get_xlabel() == "y"
    assert tr.plot(post.predict(key=2)).get_ylabel() == "value"
