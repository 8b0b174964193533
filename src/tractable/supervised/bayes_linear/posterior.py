r"""Bayesian linear regression with known noise: posterior, predictive, evidence, equivalent kernel, updates.

Model.       $y = b + w^\top\phi(x) + \epsilon$, $\epsilon \sim N(0, 1/\beta)$, $w \sim N(m_0, S_0)$; the
             intercept $b$ is absent, or has a flat prior and is integrated out.
Posterior.   $S_N^{-1} = S_0^{-1} + \beta\Phi^\top\Phi$, $m_N = S_N(S_0^{-1}m_0 + \beta\Phi^\top y)$, with
             centred columns where there is an intercept. For $S_0 = I/\alpha$, $m_N$ is ridge regression
             with $\lambda = \alpha/\beta$.
Predictive.  $N(m_N^\top\phi,\ 1/\beta + \phi^\top S_N\phi)$: noise, and what more data would settle.
Evidence.    $\log N(y \mid \Phi m_0,\ \beta^{-1}I + \Phi S_0\Phi^\top)$.
Kernel.      $k(x, x') = \beta\,\phi(x)^\top S_N\,\phi(x')$: the mean is $\sum_n k(x, x_n)\,y_n$
             for $m_0 = 0$.
Cost.        $2nd^2$ for the statistics of the rows, $O(d^3)$ for everything else, whatever their number.
References.  Bishop (2006) section 3.3; Bjorck (1996) section 2.7.3.
"""

from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, namespace
from tractable.core.factors import normal_log_density
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.rows import Rows
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.inference.trust.uncertainty import UncertaintySplit
from tractable.supervised.bayes_linear.statistics import (
    RegressionStatistics,
    directions_of,
    features,
    regression_statistics,
)

__all__ = ["BayesianLinear", "LinearPosterior", "bayesian_linear", "bayesian_linear_from"]


class LinearPosterior(Module):
    """What posteriors of the weights of features share: `mean`, `statistics`, `intercept`, `basis`."""

    @property
    def offset(self: Any) -> Scalar:
        r"""The posterior mean of the intercept, $\bar y - m_N^\top\bar\phi$; zero where there is none."""
        xp = namespace(self)
        centre = xp.asarray(self.statistics.mean)
        return jnp.asarray(centre[-1] - centre[:-1] @ xp.asarray(self.mean) if self.intercept else 0.0)

    def predict(self: Any, X: ArrayLike | Rows) -> Any:
        r"""The predictive mean $b + m_N^\top\phi(x)$ of each row."""
        xp = namespace(self, X)
        return xp.asarray(self.offset) + self._design(X) @ xp.asarray(self.mean)

    def _design(self: Any, X: Any) -> Any:
        return features(self.basis, X, self.statistics.dim)


class BayesianLinear(LinearPosterior):
    r"""The posterior $N(m_N, S_N)$ of the weights, with all that an update or a prediction needs.

    $m_N$ = `mean`, $S_N = R R^\top$ with $R$ = `root`, $\beta$ = `noise_precision`; `bayesian_linear` makes
    it.

    >>> model = bayesian_linear([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 2.0, 3.0], 1.0, 2.0)
    >>> model.mean.round(7).tolist(), round(float(model.log_evidence), 7)
    ([0.8780488, 0.9756098], -4.5007101)
    >>> predicted = model.predict_dist([[1.0, 3.0]])
    >>> round(float(predicted.mean[0]), 7), round(float(predicted.variance[0]), 7)
    (3.804878, 1.4268293)
    """

    mean: Float[Array, " d"]
    root: Float[Array, "d d"]
    noise_precision: Scalar
    log_evidence: Scalar
    statistics: RegressionStatistics = field(show=False)
    prior_mean: Float[Array, " d"] = field(show=False)
    prior_root: Float[Array, "d d"] = field(show=False)
    intercept: bool = field(static=True)
    basis: Any = None

    @property
    def verdict(self) -> Verdict:
        """What the posterior is."""
        return Verdict(True, "The posterior and its evidence are exact.", {"log_evidence": self.log_evidence})

    @property
    def cov(self) -> Float[Array, "d d"]:
        r"""$S_N$."""
        root = namespace(self).asarray(self.root)
        return jnp.asarray(root @ root.T)

    @property
    def coefficients(self) -> Gaussian:
        """The posterior of the weights, as a distribution."""
        return Gaussian(self.mean, self.cov)

    def update(
        self, X: ArrayLike | Rows, y: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> "BayesianLinear":
        """The posterior after more rows: any order and any split give the same as all rows at once."""
        more = regression_statistics(X, y, weights, basis=self.basis)
        prior = np.asarray(self.prior_mean), np.asarray(self.prior_root)
        return _absorbed(self.statistics + more, *prior, self.noise_precision, self.intercept, self.basis)

    def predict_dist(self, X: ArrayLike | Rows) -> Normal:
        r"""$p(y \mid x)$ of each row: $N(m_N^\top\phi,\ 1/\beta + \phi^\top S_N\phi)$."""
        xp = namespace(self, X)
        return Normal(xp.asarray(self.predict(X)), xp.sqrt(xp.asarray(self.split(X).total)))

    def split(self, X: ArrayLike | Rows) -> UncertaintySplit:
        r"""The predictive variance of each row in its parts $1/\beta$ and $\phi^\top S_N\phi$."""
        xp, epistemic = namespace(self, X), (self._spread(X) ** 2).sum(1)
        noise = xp.full(len(epistemic), 1 / xp.asarray(self.noise_precision))
        return UncertaintySplit(jnp.asarray(noise), jnp.asarray(epistemic))

    @takes_key
    def sample(self, key: Key, num_draws: int = 1) -> tuple[Array, Array]:
        """Draws of the weights, one per row, and of the intercept (zeros where there is none)."""
        key_weights, key_offset = jr.split(key)
        xp, size = namespace(self, key), check_count("num_draws", num_draws)
        z = xp.asarray(jr.normal(key_weights, (size, self.mean.shape[0])))
        w = xp.asarray(self.mean)[None] + z @ xp.asarray(self.root).T
        if not self.intercept:
            return jnp.asarray(w), jnp.zeros(size)
        centre, noise = xp.asarray(self.statistics.mean), xp.asarray(jr.normal(key_offset, (size,)))
        return jnp.asarray(w), jnp.asarray(centre[-1] - w @ centre[:-1] + self._offset_deviation() * noise)

    @takes_key
    def sample_functions(self, key: Key, X: ArrayLike, num_draws: int = 1) -> Array:
        """Curves of the posterior: one row per draw, one column per row of `X`, without noise."""
        xp, (w, offset) = namespace(self, key, X), self.sample(key, num_draws)
        return jnp.asarray(xp.asarray(offset)[:, None] + xp.asarray(w) @ self._design(X).T)

    def equivalent_kernel(self, X: ArrayLike, others: ArrayLike) -> Float[Array, "n m"]:
        r"""$k(x, x') = \beta\,\phi(x)^\top S_N\,\phi(x')$ (with intercept: of centred features, plus $1/n$).

        Rows of weight one enter the mean at `X` as $\sum_n k(x, x_n)\,y_n$, if the prior mean is zero; and
        $\mathrm{Cov}[f(x), f(x')] = k(x, x')/\beta$.
        """
        return jnp.asarray(self.kernel_features(X) @ self.kernel_features(others).T)

    def kernel_features(self, X: ArrayLike) -> Any:
        r"""$\psi(x) = \beta^{1/2} R^\top\phi(x)$, $S_N = R R^\top$: $k(x, x') = \psi(x)^\top\psi(x')$."""
        xp = namespace(self, X)
        return xp.sqrt(xp.asarray(self.noise_precision)) * self._spread(X)

    def _spread(self, X: Any) -> Any:
        """Rows whose squared length is the epistemic variance."""
        xp, design = namespace(self, X), self._design(X)
        if not self.intercept:
            return design @ xp.asarray(self.root)
        spread = (design - xp.asarray(self.statistics.mean)[None, :-1]) @ xp.asarray(self.root)
        return xp.column_stack([spread, xp.full(len(spread), self._offset_deviation())])

    def _offset_deviation(self) -> Any:
        """The standard deviation of the intercept at the centre of the rows; infinite before the first."""
        xp = namespace(self)
        with np.errstate(divide="ignore"):
            return 1 / xp.sqrt(xp.asarray(self.noise_precision) * xp.asarray(self.statistics.count))


def bayesian_linear(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    alpha: Any = 1.0,
    noise_precision: Any = 1.0,
    *,
    weights: ArrayLike | None = None,
    prior: Gaussian | None = None,
    intercept: bool = False,
    basis: Any = None,
) -> BayesianLinear:
    r"""The posterior of the weights for rows (n, d), or features `basis(X)`, with noise of precision $\beta$.

    The prior is $N(0, I/\alpha)$, with one `alpha` per weight $N(0, \mathrm{diag}(1/\alpha))$ (an infinite
    one pins its weight at zero), or any Gaussian as `prior`. A weight of two is the row twice: the posterior
    is that of noise with variance $1/(\beta w_i)$, and the evidence counts $\sum_i w_i$ rows.
    """
    statistics = regression_statistics(X, y, weights, basis=basis)
    return bayesian_linear_from(
        statistics, alpha, noise_precision, prior=prior, intercept=intercept, basis=basis
    )


def bayesian_linear_from(
    statistics: RegressionStatistics,
    alpha: Any = 1.0,
    noise_precision: Any = 1.0,
    *,
    prior: Gaussian | None = None,
    intercept: bool = False,
    basis: Any = None,
) -> BayesianLinear:
    """`bayesian_linear`, from statistics that were added over parts of the rows (or none: the prior)."""
    beta: Any = np.asarray(noise_precision, np.float64)
    check(
        beta.ndim == 0 and 0 < beta < np.inf,
        "noise_precision",
        "one positive, finite number",
        noise_precision,
    )
    dim = statistics.dim
    if prior is not None:
        check(
            prior.mean.shape == (dim,), "prior", f"a Gaussian of {dim} weights", f"shape {prior.mean.shape}"
        )
        return _absorbed(
            statistics, np.asarray(prior.mean), _root_of(np.asarray(prior.cov)), beta, intercept, basis
        )
    strength = np.asarray(alpha, np.float64)
    ok = strength.shape in ((), (dim,)) and bool((strength > 0).all())
    check(ok, "alpha", f"one positive number, or one for each of {dim} weights", alpha)
    root = np.diag(np.broadcast_to(1 / np.sqrt(strength), (dim,)))
    return _absorbed(statistics, np.zeros(dim), root, beta, intercept, basis)


def _absorbed(
    statistics: RegressionStatistics, prior_mean: np.ndarray, prior_root: np.ndarray, beta: Any,
    intercept: bool, basis: Any,
) -> BayesianLinear:  # fmt: skip
    r"""The posterior in $u$ with $w = m_0 + D u$, $S_0 = D D^\top$, $u \sim N(0, I)$.

    A weight that the prior pins ($D = 0$) needs no special case, and the scale of a column drops out.
    """
    triangle, beta = statistics.triangle(intercept), float(beta)
    design, target = triangle[:, :-1], triangle[:, -1]
    found = directions_of(design @ prior_root, target - design @ prior_mean)
    precision = 1 + beta * found.values**2
    root = prior_root @ (found.vectors / np.sqrt(precision)[None, :])
    mean = prior_mean + prior_root @ (found.vectors @ (beta * found.values * found.along / precision))
    misfit, degrees = found.beside + (found.along**2 / precision).sum(), statistics.degrees(intercept)
    log_det = np.log(precision).sum() - degrees * np.log(beta)
    if intercept and float(statistics.count) > 0:
        log_det += np.log(float(statistics.count))
    evidence = normal_log_density(beta * misfit, log_det, degrees)
    arrays = (jnp.asarray(a, jnp.float64) for a in (mean, root, beta, evidence))
    prior = (jnp.asarray(a, jnp.float64) for a in (prior_mean, prior_root))
    parts: Any = (*arrays, statistics, *prior, bool(intercept), basis)
    return BayesianLinear(*parts)


def _root_of(cov: np.ndarray) -> np.ndarray:
    r"""$D$ with $D D^\top = S_0$, also where the prior leaves some direction no variance."""
    size = np.sqrt(np.maximum(np.diag(cov), np.finfo(np.float64).tiny))
    values, vectors = np.linalg.eigh(cov / size[:, None] / size[None, :])
    return size[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))[None, :]
