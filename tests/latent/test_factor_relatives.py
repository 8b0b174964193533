"""Kernel components, independent components, canonical correlation and non-negative factors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import sklearn.decomposition
from scipy.integrate import quad

from tractable.core.iterate import Status
from tractable.core.moments import moments_of
from tractable.kernels.nonstationary import Linear, Polynomial
from tractable.kernels.stationary import RBF
from tractable.latent.factor.canonical import CanonicalCorrelation
from tractable.latent.factor.independent import IndependentComponents
from tractable.latent.factor.kernel_principal import KernelPrincipalComponents
from tractable.latent.factor.nonnegative import NonNegativeFactors
from tractable.latent.factor.principal import PrincipalComponents

RNG = np.random.default_rng(5)
X = RNG.normal(size=(60, 3)) @ np.diag([3.0, 2.0, 1.0]) + 4.0
NEW = RNG.normal(size=(7, 3)) + 4.0
W = RNG.integers(0, 3, 60).astype(float)
SOURCES = np.column_stack([RNG.uniform(-1, 1, 3000), RNG.laplace(size=3000), RNG.integers(0, 2, 3000) - 0.5])
MIXING = np.array([[1.0, 0.5, -0.3], [0.2, 1.0, 0.4], [-0.6, 0.3, 1.0]])
MIXED = SOURCES @ MIXING.T + [1.0, 2.0, 3.0]


def test_linear_kernel_gives_principal_components():
    found, wanted = KernelPrincipalComponents.fit(X, Linear(), 3), PrincipalComponents.fit(X, 3)
    np.testing.assert_allclose(found.variances, wanted.variances, rtol=1e-9)
    np.testing.assert_allclose(found.explained_ratio, wanted.explained_ratio, rtol=1e-9)
    for rows in (X, NEW):
        ours, theirs = found.transform(rows), wanted.transform(rows)
        np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-8)
    np.testing.assert_allclose(found.inverse(found.transform(NEW)), NEW, atol=1e-4)
    weighted = KernelPrincipalComponents.fit(X, Linear(), 2, weights=W)
    copies = PrincipalComponents.fit(np.repeat(X, W.astype(int), 0), 2)
    np.testing.assert_allclose(weighted.variances, copies.variances, rtol=1e-9)
    np.testing.assert_allclose(np.abs(weighted.transform(NEW)), np.abs(copies.transform(NEW)), atol=1e-8)


def test_kernel_components_agree_with_the_peer_and_with_explicit_features():
    found = KernelPrincipalComponents.fit(X, RBF(2.0), 4)
    peer = sklearn.decomposition.KernelPCA(4, kernel="rbf", gamma=1 / 8).fit(X)
    np.testing.assert_allclose(found.variances * 60, peer.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(np.abs(found.transform(NEW)), np.abs(peer.transform(NEW)), atol=1e-8)
    line = X[:, :1]
    squares = KernelPrincipalComponents.fit(line, Polynomial(2, 1.0), 2)
    features = np.column_stack([line**2, 2**0.5 * line])  # of (x x' + 1)^2, without the constant
    np.testing.assert_allclose(squares.variances, PrincipalComponents.fit(features).variances, rtol=1e-8)
    with pytest.raises(ValueError, match="at most 2, as features vary"):
        KernelPrincipalComponents.fit(line, Polynomial(2, 1.0), 3)
    with pytest.raises(ValueError, match="rows with distinct features"):
        KernelPrincipalComponents.fit(X[:1], RBF(1.0))
    model = jax.tree.map(jnp.asarray, found)
    np.testing.assert_allclose(
        jax.jit(lambda m, x: m.transform(x))(model, NEW), found.transform(NEW), atol=1e-9
    )


def matched(found):
    """The correlation of each source with its best component, which are all different."""
    table = np.abs(np.corrcoef(SOURCES.T, found.T)[:3, 3:])
    rows, columns = scipy.optimize.linear_sum_assignment(-table)
    return table[rows, columns]


@pytest.mark.cheap
@pytest.mark.parametrize("contrast", ["logcosh", "exp", "cube"])
def test_sources_are_found_up_to_order_and_sign(contrast):
    found = IndependentComponents.fit(MIXED, key=0, contrast=contrast)
    assert found.status is Status.converged
    assert found.verdict.ok
    s = found.transform(MIXED)
    assert (matched(s) > 0.98).all()
    np.testing.assert_allclose(s.T @ s / 3000, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(found.inverse(s), MIXED, atol=1e-9)
    np.testing.assert_allclose(found.unmixing @ found.mixing, np.eye(3), atol=1e-10)
    peer = sklearn.decomposition.FastICA(3, fun="logcosh", random_state=0, tol=1e-8, max_iter=1000).fit(MIXED)
    assert (matched(s) > matched(peer.transform(MIXED)) - 0.01).all()


def test_likelihood_prefers_the_sources_and_gaussians_cannot_be_parted():
    density = quad(lambda s: 0.5 / np.cosh(np.pi * s / 2), -40, 40)[0]
    variance = quad(lambda s: s**2 * 0.5 / np.cosh(np.pi * s / 2), -40, 40)[0]
    np.testing.assert_allclose([density, variance], 1.0, rtol=1e-8)
    heavy = RNG.laplace(size=(4000, 2)) @ MIXING[:2, :2].T
    found = IndependentComponents.fit(heavy, key=1)
    best = found.log_prob(heavy).sum()
    s = found.transform(heavy)
    wanted = np.log(0.5 / np.cosh(np.pi * s / 2)).sum() + 4000 * np.linalg.slogdet(found.unmixing)[1]
    np.testing.assert_allclose(best, wanted, rtol=1e-10)
    for angle in (0.2, 0.6, -0.4):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        import dataclasses

        assert dataclasses.replace(found, unmixing=turn @ found.unmixing).log_prob(heavy).sum() < best
    same = IndependentComponents.fit(np.repeat(MIXED[:400], 2, 0), key=0)
    twice = IndependentComponents.fit(MIXED[:400], key=0, weights=np.full(400, 2.0))
    np.testing.assert_allclose(same.unmixing, twice.unmixing, atol=1e-7)
    assert not IndependentComponents.fit(RNG.normal(size=(500, 2)), key=0).verdict.ok
    dependent = np.column_stack([MIXED, MIXED[:, 0], np.ones(3000)])
    assert (matched(IndependentComponents.fit(dependent, key=0).transform(dependent)) > 0.98).all()
    with pytest.raises(ValueError, match=r"in which the rows vary \(3\); got 4"):
        IndependentComponents.fit(dependent, 4, key=0)


def test_canonical_pairs_solve_the_eigenproblem():
    z = RNG.normal(size=(300, 1))
    x = np.column_stack([z + RNG.normal(size=(300, 1)), RNG.normal(size=(300, 2))]) + 3.0
    y = np.column_stack([RNG.normal(size=(300, 1)), z + 0.5 * RNG.normal(size=(300, 1))])
    found = CanonicalCorrelation.fit(x, y)
    cov = np.cov(np.column_stack([x, y]).T, ddof=0)
    a, b, c = cov[:3, :3], cov[3:, 3:], cov[:3, 3:]
    values = scipy.linalg.eigvals(np.linalg.solve(a, c @ np.linalg.solve(b, c.T))).real
    np.testing.assert_allclose(np.sort(found.correlations**2)[::-1], np.sort(values)[::-1][:2], atol=1e-10)
    u, v = found.transform(x), found.transform_other(y)
    np.testing.assert_allclose(u.T @ u / 300, np.eye(2), atol=1e-10)
    np.testing.assert_allclose(v.T @ v / 300, np.eye(2), atol=1e-10)
    np.testing.assert_allclose(u.T @ v / 300, np.diag(found.correlations), atol=1e-10)
    np.testing.assert_allclose(
        found.x_loadings @ found.y_loadings.T, c, atol=1e-10
    )  # shared factors: all of it
    assert found.p_values[0] < 1e-6
    assert found.p_values[1] > 0.01
    one = CanonicalCorrelation.fit(x, y[:, :1])
    rest = y[:, 0] - y[:, 0].mean()
    fit = np.linalg.lstsq(x - x.mean(0), rest, rcond=None)[1]
    np.testing.assert_allclose(one.correlations[0] ** 2, 1 - fit[0] / (rest @ rest), rtol=1e-9)


def test_canonical_pairs_of_dependent_columns_weights_and_parts():
    x, y = X[:, :2], np.column_stack([X[:, 2] + X[:, 0], X[:, 1]])
    doubled = CanonicalCorrelation.fit(np.column_stack([x, x @ [1.0, 2.0]]), y)
    np.testing.assert_allclose(doubled.correlations, CanonicalCorrelation.fit(x, y).correlations, rtol=1e-9)
    weighted = CanonicalCorrelation.fit(x, y, weights=W)
    index = np.repeat(np.arange(60), W.astype(int))
    np.testing.assert_allclose(
        weighted.correlations, CanonicalCorrelation.fit(x[index], y[index]).correlations
    )
    both = np.column_stack([x, y])
    parts = CanonicalCorrelation.from_moments(moments_of(both[:20]) + moments_of(both[20:]), 2)
    np.testing.assert_allclose(parts.correlations, CanonicalCorrelation.fit(x, y).correlations, rtol=1e-10)
    shrunk = CanonicalCorrelation.fit(x, y, penalty=1.0)
    assert (shrunk.correlations < CanonicalCorrelation.fit(x, y).correlations).all()
    with pytest.raises(ValueError, match="tables that vary"):
        CanonicalCorrelation.fit(np.ones((9, 1)), X[:9])
    with pytest.raises(ValueError, match="as long as `X`"):
        CanonicalCorrelation.fit(X, X[:9])


@pytest.mark.cheap
@pytest.mark.parametrize("loss", ["squared", "kl"])
def test_parts_without_signs_are_monotone_and_as_good_as_the_peer(loss):
    numbers = np.random.default_rng(4)
    parts, amounts = numbers.gamma(0.5, size=(3, 8)), numbers.gamma(0.7, size=(80, 3))
    rows = numbers.poisson(10 * amounts @ parts).astype(float)
    found = NonNegativeFactors.fit(rows, 3, key=0, loss=loss, max_steps=3000, tol=1e-10)
    assert (np.diff(found.trace) <= 1e-9 * found.trace[0]).all()
    assert found.components.min() >= 0
    assert found.amounts.min() >= 0
    options = {"solver": "cd"} if loss == "squared" else {"solver": "mu", "beta_loss": "kullback-leibler"}
    peer = sklearn.decomposition.NMF(
        3, init="random", random_state=0, max_iter=5000, tol=1e-9, **options
    ).fit(rows)
    costs = [
        NonNegativeFactors.fit(rows, 3, key=i, loss=loss, max_steps=3000, tol=1e-10).cost for i in range(5)
    ]
    assert min(costs) < 1.001 * 0.5 * peer.reconstruction_err_**2  # optima are many: the best of a few starts
    again = found.transform(rows[:9])
    np.testing.assert_allclose(again @ found.components, (found.amounts @ found.components)[:9], atol=2e-2)
    np.testing.assert_allclose(found.inverse(again), again @ found.components)
    weighted = NonNegativeFactors.fit(rows, 3, key=0, loss=loss, weights=np.full(80, 2.0), max_steps=20)
    plain = NonNegativeFactors.fit(rows, 3, key=0, loss=loss, max_steps=20)
    np.testing.assert_allclose(weighted.components, plain.components, rtol=1e-9)
    np.testing.assert_allclose(weighted.cost, 2 * plain.cost, rtol=1e-9)


def test_amounts_are_least_squares_without_signs_and_negative_entries_are_named():
    found = NonNegativeFactors.fit(RNG.gamma(1.0, size=(30, 6)), 3, key=0)
    new = RNG.gamma(1.0, size=(4, 6))
    wanted = [scipy.optimize.nnls(found.components.T, row)[0] for row in new]
    np.testing.assert_allclose(found.transform(new), wanted, atol=1e-6)
    with pytest.raises(ValueError, match=r"`X` must be zero or positive; got -1.0 at index \(1, 0\)"):
        NonNegativeFactors.fit([[1.0], [-1.0]], 1, key=0)
    assert NonNegativeFactors.fit(np.zeros((3, 2)), 1, key=0).cost == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("rows", "said"),
    [(np.ones((9, 3)), "`X` must be rows of which two differ"),
     (np.outer(np.arange(9.0), [1.0, 2.0, 3.0]), r"`num_components` must be at most .* vary \(1\); got 2")],
)  # fmt: skip
@pytest.mark.cheap
def test_sources_need_directions_in_which_rows_vary(rows, said):
    with pytest.raises(ValueError, match=said):
        IndependentComponents.fit(rows, 2, key=0)
