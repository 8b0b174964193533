"""The one door into the pictures: every class that it lists is there, and draws."""

import importlib

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes

import tractable as tr
from tractable.distributions import Bernoulli, Beta, Gamma, Normal
from tractable.estimators import GaussianProcessRegressor, LinearRegressor, LogisticClassifier, TreeRegressor
from tractable.graphs import DAG
from tractable.inference import compare, importance, laplace, loo, model_posterior
from tractable.inference.chains.posterior import ChainPosterior
from tractable.inference.samplers.sampler import Info
from tractable.plots.door import KINDS, kinds_of

RANDOM = np.random.default_rng(0)
SHAPE = (4, 100)
X = np.linspace(0.0, 4.0, 15)[:, None]
Y = 100.0 + 20.0 * np.sin(X[:, 0]) + RANDOM.normal(size=15)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def chains():
    info = Info(
        np.full(SHAPE, 0.8), np.full(SHAPE, 7), np.zeros(SHAPE, bool), energy=RANDOM.normal(size=SHAPE)
    )
    draws = {"theta": RANDOM.normal(size=(*SHAPE, 2)), "tau": RANDOM.gamma(2.0, size=SHAPE)}
    return ChainPosterior(draws, RANDOM.normal(size=SHAPE), info)


@pytest.mark.cheap
@pytest.mark.parametrize("place", KINDS)
def test_classes_and_pictures_of_the_door_exist(place):
    module, _, name = place.partition(":")
    assert isinstance(getattr(importlib.import_module(f"tractable.{module}"), name), type)
    for door in KINDS[place].values():
        module, _, path = door.partition(":")
        found = importlib.import_module(f"tractable.plots.{module}")
        for part in path.split("."):
            found = getattr(found, part)
        assert callable(found)


def test_every_picture_of_chains():
    post = chains()
    assert next(iter(kinds_of(post))) == "trace"
    for kind in kinds_of(post):
        drawn = tr.plot(post, kind=kind)
        first = drawn[0] if isinstance(drawn, list) else drawn
        assert isinstance(first, Axes)
        plt.close("all")
    traces = tr.plot(post)  # one axis for each variable
    assert [ax.get_ylabel() for ax in traces] == ["tau", "theta[0]", "theta[1]"]
    for ax, name in zip(traces, post.names):
        np.testing.assert_array_equal(ax.get_lines()[1].get_ydata(), post[name][1])
    assert [ax.get_ylabel() for ax in tr.plot(post, ["theta"])] == ["theta[0]", "theta[1]"]
    assert tr.plot(post, "tau").get_ylabel() == "tau"
    with pytest.raises(ValueError, match="`ax` must be left out for 3 variables"):
        tr.plot(post, ax=plt.gca())
    with pytest.raises(ValueError, match="`kind` must be one of 'trace', 'ranks'"):
        tr.plot(post, kind="pie")


def small(name):
    rows = np.array([1, 0, 1, 1])
    exact = tr.posterior(Beta(2.0, 2.0), Bernoulli, rows)
    if name == "exact":
        return (exact,)
    if name == "predictions":
        return (exact.predict(lambda p: Normal(p, 1.0), key=0),)
    if name == "loo":
        return (loo(exact),)
    if name == "comparison":
        return (compare({"a": exact, "b": loo(exact)}),)
    if name == "models":
        return (model_posterior({"a": exact, "b": -4.0}),)
    return (laplace(lambda x: -0.5 * x**2, 0.0),)


RESULTS = {
    "density": lambda: (Gamma(2.0, 1.0),),
    "weighted": lambda: (importance(Normal(0.0, 1.0), Normal(0.5, 2.0), key=0, num_draws=100),),
    "network": lambda: (DAG({"a": [], "b": ["a"]}),),
    "kernel": lambda: (tr.kernels.RBF(1.0),),
    "tree": lambda: (TreeRegressor().fit(X, Y),),
    "regressor": lambda: (LinearRegressor().fit(X, Y), X, Y),
    "classifier": lambda: (LogisticClassifier().fit(X, Y > 100), X, Y > 100),
    **{
        name: lambda name=name: small(name)
        for name in ("exact", "predictions", "loo", "comparison", "models", "laplace")
    },
}


@pytest.mark.cheap
@pytest.mark.parametrize("name", RESULTS)
def test_results_models_and_estimators_have_a_picture(name):
    assert isinstance(tr.plot(*RESULTS[name]()), Axes)


def test_what_has_no_picture_is_refused_by_name():
    with pytest.raises(
        TypeError, match="`result` must be a result, model or estimator that has a picture; got"
    ):
        tr.plot(3)


@pytest.mark.thorough
def test_a_process_estimator_is_drawn_in_the_units_of_its_targets():
    model = GaussianProcessRegressor().fit(X, Y)
    ax = tr.plot(model, num_paths=2, key=0)
    lines = {line.get_label(): line for line in ax.get_lines()}
    np.testing.assert_allclose(np.sort(lines["data"].get_ydata()), np.sort(Y), rtol=1e-12)
    places = lines["mean"].get_xdata()
    np.testing.assert_allclose(lines["mean"].get_ydata(), model.predict(places[:, None]), rtol=1e-9)
    assert places.min() < 0
    assert places.max() > 4
    for path in ax.get_lines()[:2]:
        assert 50 < np.mean(path.get_ydata()) < 150
    sampled = tr.plot(GaussianProcessRegressor(method="mcmc", random_state=0).fit(X[::2], Y[::2]))
    assert 80 < sampled.get_lines()[0].get_ydata().mean() < 120
    # the kernel in the units of the targets predicts what the process at its mode does
    noise = model.model_.process.noise.variance * model.y_scale_**2
    gram = np.asarray(model.kernel_.gram(X)) + float(noise) * np.eye(15)
    mean = Y.mean() + np.asarray(model.kernel_.gram(X)) @ np.linalg.solve(gram, Y - Y.mean())
    at_mode = model.y_mean_ + model.y_scale_ * np.asarray(model.model_.mean(X))
    np.testing.assert_allclose(at_mode, mean, rtol=1e-6)


def test_long_names_stay_inside_their_nodes():
    names = ["smoking", "LeftVentricularFailure", "pulmonary_capillary_wedge_pressure", "x" * 40, "a"]
    dag = DAG({names[0]: [], **{name: [names[0]] for name in names[1:]}})
    ax = tr.plot(dag)
    figure = ax.get_figure()
    figure.canvas.draw()
    circles = {patch.get_gid(): patch for patch in ax.patches if patch.get_gid() in names}
    texts = {text.get_text().replace("\n", ""): text for text in ax.texts}
    assert set(texts) == set(names)
    for name, text in texts.items():
        box, node = text.get_window_extent(), circles[name].get_window_extent()
        corners = np.hypot(box.width, box.height) / 2
        assert corners <= node.width / 2 * 1.02, name
    assert texts["a"].get_fontsize() == 9.0
