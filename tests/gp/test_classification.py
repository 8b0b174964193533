"""Gaussian process classification against dense algebra, quadrature and scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.special import expit, log_expit, ndtr

from tractable.bijections.support import unconstrain
from tractable.gp import multiclass
from tractable.gp.classification import ClassificationProcess, fit_classification
from tractable.gp.links import Logistic, Probit, average
from tractable.gp.multiclass import fit_multiclass, multiclass_posterior
from tractable.gp.sites import METHODS
from tractable.inference.curvature.moderated import moderated_probability
from tractable.kernels.stationary import RBF

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(24, 2))
Y = (X[:, 0] + 0.5 * GENERATOR.normal(size=24) > 0).astype(int)
NEW = GENERATOR.normal(size=(5, 2))
KERNEL = 4.0 * RBF(1.0)


def gram(A, B, variance=4.0, length=1.0):
    return variance * np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(-1) / length**2)


def laplace_by_hand(K, y):
    """The mode by Newton's method with dense inverses, and the Laplace evidence."""
    f, inverse = np.zeros(len(y)), np.linalg.inv(K)
    for _ in range(100):
        p = expit(f)
        W = np.diag(p * (1 - p))
        f = f + np.linalg.solve(inverse + W, y - p - inverse @ f)
    fit = log_expit((2 * y - 1) * f).sum()
    return f, W, fit - 0.5 * f @ inverse @ f - 0.5 * np.linalg.slogdet(np.eye(len(y)) + K @ W)[1]


def test_one_datum():
    found = ClassificationProcess(RBF(1.0)).posterior([0.0], [1])
    latent = found.latent([0.0])
    assert float(latent.mean[0]) == pytest.approx(0.4010581, abs=5e-8)
    assert float(latent.variance[0]) == pytest.approx(0.8063147, abs=5e-8)
    assert float(found.learned.factor.root[0]) ** 2 == pytest.approx(0.2402105, abs=5e-8)
    assert float(found.log_evidence) == pytest.approx(-0.7006551, abs=5e-8)
    short = moderated_probability(latent.mean, latent.variance, "kappa")
    assert float(short[0]) == pytest.approx(0.5865016, abs=5e-8)


def test_one_datum_is_exact_by_expectation_propagation():
    found = ClassificationProcess(RBF(1.0)).posterior([0.0], [1], method="ep")
    assert float(found.log_evidence) == pytest.approx(np.log(0.5), abs=1e-12)
    grid = np.linspace(-12, 12, 20001)
    density = expit(grid) * np.exp(-0.5 * grid**2)
    mean = (grid * density).sum() / density.sum()
    assert float(found.latent([0.0]).mean[0]) == pytest.approx(mean, abs=1e-9)


def test_laplace_is_that_of_dense_algebra():
    K = gram(X, X)
    mode, W, evidence = laplace_by_hand(K, Y)
    found = ClassificationProcess(KERNEL).posterior(X, Y)
    assert float(found.log_evidence) == pytest.approx(evidence, abs=1e-8)
    cross = gram(X, NEW)
    spread = gram(NEW, NEW) - cross.T @ np.linalg.solve(K + np.linalg.inv(W), cross)
    latent = found.latent(NEW)
    np.testing.assert_allclose(latent.mean, cross.T @ np.linalg.solve(K, mode), atol=1e-7)
    np.testing.assert_allclose(latent.variance, np.diag(spread), atol=1e-7)


def test_laplace_agrees_with_scikit_learn():
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process import kernels as peers

    peer = GaussianProcessClassifier(peers.ConstantKernel(4.0) * peers.RBF(1.0), optimizer=None).fit(X, Y)
    found = ClassificationProcess(KERNEL).posterior(X, Y)
    assert float(found.log_evidence) == pytest.approx(peer.log_marginal_likelihood_value_, abs=1e-6)
    # it replaces the sigmoid by a sum of five error functions
    np.testing.assert_allclose(found.probability(NEW), peer.predict_proba(NEW)[:, 1], atol=1e-4)


@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_two_rows_against_quadrature(link):
    K, sigmoid = np.array([[1.0, 0.6], [0.6, 1.0]]), expit if link == "logistic" else ndtr
    points = np.array([0.0, np.sqrt(-2 * np.log(0.6))])
    root = np.linalg.cholesky(K)

    def mass(b, a):
        f = root @ np.array([a, b])
        return sigmoid(f[0]) * sigmoid(-f[1]) * np.exp(-0.5 * (a * a + b * b)) / (2 * np.pi)

    exact = np.log(dblquad(mass, -8, 8, -8, 8, epsabs=1e-11)[0])
    process = ClassificationProcess(RBF(1.0), link)
    values = {m: float(process.log_evidence(points, [1, 0], method=m)) for m in METHODS}
    assert values["ep"] == pytest.approx(exact, abs=2e-3)
    assert values["variational"] < exact
    assert abs(values["ep"] - exact) < min(abs(values[m] - exact) for m in ("laplace", "variational"))


def test_the_variational_gaussian_is_a_maximum_of_the_bound():
    """No other precision of the sites, and no other mean, has a larger bound."""
    from tractable.gp.laplace import Sites
    from tractable.gp.sites import Labels, find_sites, site_evidence

    K, sign = jnp.asarray(gram(X, X)), jnp.asarray(2.0 * Y - 1)
    labels = Labels(Logistic(), sign, jnp.ones(24), jnp.zeros(24))
    best = find_sites("variational", K, labels).state

    def bound(sites):
        return site_evidence("variational", K, labels, sites)

    slope = jax.jit(jax.grad(bound))(best)
    assert float(jnp.abs(slope.precision).max()) < 1e-6
    assert float(jnp.abs(slope.shift).max()) < 1e-6
    moved = Sites(best.precision * 1.1, best.shift * 0.95)
    assert float(bound(moved)) < float(bound(best))


@pytest.mark.parametrize("method", METHODS)
def test_labels_may_change_sides(method):
    process = ClassificationProcess(KERNEL)
    weights = np.ones(24)
    weights[:4], weights[4] = 2, 0
    plain, mirrored = (process.posterior(X, labels, weights, method=method) for labels in (Y, 1 - Y))
    np.testing.assert_allclose(mirrored.probability(NEW), 1 - plain.probability(NEW), atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_the_gradient_of_the_evidence_is_that_of_differences(method):
    def evidence(log_length):
        return ClassificationProcess(4.0 * RBF(jnp.exp(log_length))).log_evidence(X, Y, method=method)

    slope = float(jax.grad(evidence)(0.1))
    step = 1e-4
    wanted = (float(evidence(0.1 + step)) - float(evidence(0.1 - step))) / (2 * step)
    assert slope == pytest.approx(wanted, rel=1e-5)


def test_learning_reaches_the_optimum_of_scikit_learn():
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process import kernels as peers

    peer = GaussianProcessClassifier(peers.ConstantKernel(4.0) * peers.RBF(1.0)).fit(X, Y)
    found = fit_classification(ClassificationProcess(KERNEL), X, Y, tol=1e-5)
    assert float(found.log_evidence) >= peer.log_marginal_likelihood_value_ - 1e-5


def multiclass_by_hand(K, y, num_classes):
    n = len(y)
    whole, codes = np.kron(np.eye(num_classes), K), np.eye(num_classes)[y].T.ravel()
    f = np.zeros(n * num_classes)
    for _ in range(60):
        table = np.exp(f.reshape(num_classes, n))
        p = table / table.sum(0)
        stacked = np.vstack([np.diag(row) for row in p])
        W = np.diag(p.ravel()) - stacked @ stacked.T
        # f = K a avoids the inverse of K
        f = whole @ np.linalg.solve(np.eye(len(f)) + W @ whole, W @ f + codes - p.ravel())
    log_p = f.reshape(num_classes, n) - np.log(np.exp(f.reshape(num_classes, n)).sum(0))
    prior = f @ np.linalg.solve(whole, f)
    return (
        f,
        W,
        (codes * log_p.ravel()).sum() - 0.5 * prior - 0.5 * np.linalg.slogdet(np.eye(len(f)) + whole @ W)[1],
    )


def test_several_classes_are_those_of_dense_algebra():
    labels = np.argmax(np.stack([X[:, 0], X[:, 1], -X.sum(1)]) + 0.5 * GENERATOR.normal(size=(3, 24)), 0)
    K, cross = gram(X, X), gram(X, NEW)
    mode, W, evidence = multiclass_by_hand(K, labels, 3)
    found = multiclass_posterior(KERNEL, X, labels, 3)
    assert float(found.log_evidence) == pytest.approx(evidence, abs=1e-7)
    mean, cov = found.latent(NEW)
    whole = np.kron(np.eye(3), K)
    for i in range(len(NEW)):
        column = np.kron(np.eye(3), cross[:, [i]])
        np.testing.assert_allclose(mean[i], column.T @ np.linalg.solve(whole, mode), atol=1e-7)
        spread = 4 * np.eye(3) - column.T @ W @ np.linalg.solve(np.eye(len(mode)) + whole @ W, column)
        np.testing.assert_allclose(cov[i], spread, atol=1e-7)
    probs = found.probability(NEW)
    draws = GENERATOR.multivariate_normal(np.asarray(mean[0]), np.asarray(cov[0]), size=100_000)
    share = np.exp(draws) / np.exp(draws).sum(1, keepdims=True)
    assert np.abs((probs[0] - share.mean(0)) / (share.std(0) / 512**0.5)).max() < 1  # as good as 512 draws
    doubled = multiclass_posterior(
        KERNEL, np.concatenate([X, X[:3]]), np.concatenate([labels, labels[:3]]), 3
    )
    weighted = multiclass_posterior(KERNEL, X, labels, 3, 1.0 + (np.arange(24) < 3))
    assert float(weighted.log_evidence) == pytest.approx(float(doubled.log_evidence), abs=1e-7)


def test_averages_of_links_are_exact():
    assert float(
        average(lambda f: Probit().log_prob(jnp.asarray(1.0), f), jnp.asarray(0.3), jnp.asarray(0.0))
    ) == pytest.approx(np.log(ndtr(0.3)), abs=1e-12)
    for spread in (0.5, 4.0, 100.0):
        mean = average(
            lambda f: jnp.exp(Probit().log_prob(jnp.asarray(1.0), f)), jnp.asarray(1.0), jnp.asarray(spread)
        )
        assert float(mean) == pytest.approx(ndtr(1 / np.sqrt(1 + spread)), abs=1e-12)
        assert float(Probit().probability(1.0, spread)) == pytest.approx(float(mean), abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0, 1.0], [1, 2]), "`y` must be 0 or 1; got 2 at index 1"),
        (([0.0, np.nan], [1, 0]), "`X` must be finite; got NaN in column 0, row 1"),
        (([0.0, 1.0], [1]), "`y` must"),
    ],
)
def test_bad_labels_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ClassificationProcess(RBF(1.0)).posterior(*arguments)
    with pytest.raises(ValueError, match="`method` must be"):
        ClassificationProcess(RBF(1.0)).posterior([0.0], [1], method="guess")


LABELS = np.argmax(np.stack([X[:, 0], X[:, 1], -X.sum(1)]), 0)


def test_the_slope_of_several_classes_is_that_of_differences():
    """The search writes the gradient down; the evidence of a posterior knows nothing of it."""
    weights = 1.0 + (np.arange(24) < 3)
    observed, classes = multiclass._labelled(X, LABELS, 3, weights)
    free, rebuild = unconstrain(4.0 * RBF([1.0, 2.0]))
    start = multiclass._no_sites(classes)
    value, slope, (sites, _) = multiclass._value_and_slope(free, rebuild, observed.X, classes, start)

    def evidence(point):
        return float(multiclass_posterior(rebuild(point)[0], X, LABELS, 3, weights).log_evidence)

    assert float(value) == pytest.approx(evidence(free), abs=1e-8)
    step = 1e-4 * np.eye(3)
    wanted = [(evidence(free + e) - evidence(free - e)) / 2e-4 for e in step]
    np.testing.assert_allclose(slope, wanted, rtol=1e-5)
    again = multiclass._value_and_slope(free, rebuild, observed.X, classes, sites)  # from where it ended
    np.testing.assert_allclose(again[1], slope, rtol=1e-7)


def test_a_fit_to_some_rows_shortens_the_search_for_all():
    found = fit_multiclass(KERNEL, X[::2], LABELS[::2], 3, spread=1.0)
    alone = multiclass_posterior(found.kernel, X, LABELS, 3)
    near = multiclass_posterior(found.kernel, X, LABELS, 3, near=found)
    assert int(near.run.num_steps) <= int(alone.run.num_steps)
    assert float(near.log_evidence) == pytest.approx(float(alone.log_evidence), abs=1e-8)
    np.testing.assert_allclose(near.latent(X)[0], alone.latent(X)[0], atol=1e-7)
    assert float(found.log_evidence) == pytest.approx(
        float(multiclass_posterior(found.kernel, X[::2], LABELS[::2], 3).log_evidence), abs=1e-7
    )
    assert found.run.status.sentence in repr(found)


def test_newton_reaches_the_mode_of_a_stiff_prior():
    """Signs that alternate under a large variance: full steps overshoot."""
    places, labels = np.linspace(0, 3, 24)[:, None], np.arange(24) // 3 % 2
    found = ClassificationProcess(1e4 * RBF(0.3)).posterior(places, labels)
    assert found.run.status.ok
    assert int(found.run.num_steps) < 40
    mean = np.asarray(found.latent(places).mean)
    slope = labels - expit(mean)  # at the mode the dual weights are the residuals
    np.testing.assert_allclose(np.asarray(found.learned.weights)[:24], slope, atol=1e-7)


def test_a_prior_keeps_separable_classes_from_an_infinite_variance():
    labels = (X[:, 0] > 0).astype(int)
    weak = fit_classification(ClassificationProcess(KERNEL), X, labels, spread=1.0, tol=1e-6)
    variance = np.log(float(weak.process.kernel.variance) / 4.0)
    gap = np.array([variance, np.log(float(weak.process.kernel.kernel.length_scale))])

    def evidence(point):
        kernel = 4.0 * np.exp(point[0]) * RBF(np.exp(point[1]))
        return float(ClassificationProcess(kernel).log_evidence(X, labels))

    assert float(weak.log_evidence) == pytest.approx(evidence(gap), abs=1e-7)
    slope = [(evidence(gap + e) - evidence(gap - e)) / 2e-4 for e in 1e-4 * np.eye(2)]
    np.testing.assert_allclose(slope, gap, atol=2e-4)  # the evidence pulls as the prior does
    with pytest.raises(ValueError, match="`spread` must be positive or None"):
        fit_classification(ClassificationProcess(KERNEL), X, labels, spread=0.0)
    with pytest.raises(ValueError, match="`stop` must be one of"):
        fit_classification(ClassificationProcess(KERNEL), X, labels, stop="never")
