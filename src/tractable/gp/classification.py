r"""Gaussian process classification of two classes: a latent function behind a sigmoid.

Model.       $f \sim GP(m, k)$, $p(y_n = 1 \mid f) = \sigma(f(x_n))$ (or $\Phi$).
Posterior.   Gaussian, by Laplace, expectation propagation or the variational bound (`gp.sites`):
             $E[f_*] = m_* + k_*^\top a$ and $k_{**} - \|L^{-1} T^{1/2} k_*\|^2$ with $LL^\top = B$.
Probability. $\int\sigma(f_*)\,q(f_*)\,df_*$, to rounding.
Learning.    The approximate evidence is maximised over the hyperparameters; its gradient is exact, because
             the sites are a fixed point.
Cost.        $O(n^3)$ per step of the sites.
References.  Rasmussen and Williams (2006) chapter 3; Kuss and Rasmussen (2005).
"""

from typing import Any

import jax
import numpy as np

from tractable.bijections.support import Rebuild
from tractable.core.checks import check, check_option, to_device
from tractable.core.iterate import Run
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Float, Scalar
from tractable.distributions.gaussian import Learned
from tractable.gp.ascent import ProcessFit, Searched, ascend
from tractable.gp.laplace import Sites
from tractable.gp.latent import LatentPosterior
from tractable.gp.links import Link, as_link
from tractable.gp.means import Mean, as_mean
from tractable.gp.points import Observed, Table, observe
from tractable.gp.prior import covariance, means
from tractable.gp.sites import METHODS, Labels, SiteGaussian, find_sites, posterior_of_sites, site_evidence

__all__ = ["ClassificationPosterior", "ClassificationProcess", "fit_classification"]


class ClassificationProcess(Module):
    r"""$f \sim GP(m, k)$ seen through labels 0 and 1; `link` is "logistic" or "probit".

    >>> from tractable.kernels.stationary import RBF
    >>> found = ClassificationProcess(RBF(1.0)).posterior([0.0], [1])
    >>> round(float(found.log_evidence), 6), round(float(found.probability([0.0])[0]), 6)
    (-0.700655, 0.584682)
    """

    kernel: Any
    link: Link
    mean: Mean

    def __init__(self, kernel: Any, link: Link | str = "logistic", mean: Any = None):
        check(hasattr(kernel, "gram"), "kernel", "a Kernel", type(kernel).__name__, error=TypeError)
        self.kernel, self.link, self.mean = kernel, as_link(link), as_mean(mean)

    def posterior(
        self, X: Table, y: Any = None, weights: Any = None, *, method: str = "laplace"
    ) -> "ClassificationPosterior":
        """The process after seeing labels 0 and 1; a row of weight two is the row twice."""
        check_option("method", method, METHODS)
        return _posterior(self, observe(X, y, weights, target="binary"), method)

    def log_evidence(
        self, X: Table, y: Any = None, weights: Any = None, *, method: str = "laplace"
    ) -> Scalar:
        r"""The approximation of $\log p(y \mid X)$; for "variational" a lower bound."""
        return self.posterior(X, y, weights, method=method).log_evidence


class ClassificationPosterior(Searched, LatentPosterior):
    """A classifying process after seeing labels."""

    process: ClassificationProcess
    observed: Observed = field(show=False)
    q: SiteGaussian = field(show=False)
    log_evidence: Scalar
    run: Run = field(show=False)
    method: str = field(static=True)

    @property
    def learned(self) -> Learned:
        return self.q.learned

    @property
    def dim(self) -> int:
        return self.observed.X.shape[1]

    def cross(self, X: Float[Array, "m d"]) -> Float[Array, "m n"]:
        """The covariance of the function at rows and at those seen."""
        return covariance(self.process, X, self.observed.X)

    def probability(self, X: Table) -> Any:
        """The probability of class 1 at each row."""
        return self.process.link.probability(*self.moments(X))


def fit_classification(
    process: ClassificationProcess,
    X: Table,
    y: Any = None,
    weights: Any = None,
    *,
    method: str = "laplace",
    max_steps: int = 50,
    tol: float = 1e-3,
    stop: str = "gradient",
    spread: float | int | None = None,
) -> ProcessFit:
    """The process whose hyperparameters maximise the approximate evidence, from its own values.

    It ends where the gradient is below `tol`, or with `stop="value"` where a step gains less. With `spread`
    the free numbers are normal about their start, with that standard deviation (`gp.ascent`).
    """
    check_option("method", method, METHODS)
    observed = observe(X, y, weights, target="binary")
    none = Sites(*(to_device(np.zeros(observed.y.shape, observed.y.dtype)) for _ in range(2)))

    def evaluate(point: Array, rebuild: Rebuild, sites: Sites) -> tuple[Array, Array, Sites]:
        return _value_and_slope(point, rebuild, observed, method, sites)

    options = {"max_steps": max_steps, "tol": tol, "stop": stop, "spread": spread}
    found, value, run, _ = ascend(evaluate, process, none, **options)
    return ProcessFit(found, value, run)


def _evidence(
    process: ClassificationProcess, observed: Observed, method: str, start: Sites | None = None
) -> tuple[Scalar, Array, Run]:
    """The evidence, the covariance of the function at the rows, and the search for the sites."""
    gram = covariance(process, observed.X)
    labels = Labels(process.link, 2 * observed.y - 1, observed.weights, means(process, observed.X))
    # the fixed point is found apart, and the evidence differentiated with the sites held
    run = find_sites(method, *jax.lax.stop_gradient((gram, labels)), start)
    return site_evidence(method, gram, labels, jax.lax.stop_gradient(run.state)), gram, run


@program
def _value_and_slope(
    free: Float[Array, " p"], rebuild: Rebuild, observed: Observed, method: str, start: Sites
) -> tuple[Scalar, Array, Sites]:
    """The evidence at free numbers, its gradient, and the sites there."""

    def value(point: Array) -> tuple[Scalar, Sites]:
        found, _, run = _evidence(rebuild(point)[0], observed, method, start)
        return found, run.state

    (found, sites), slope = jax.value_and_grad(value, has_aux=True)(free)
    return found, slope, sites


@program
def _posterior(process: ClassificationProcess, observed: Observed, method: str) -> ClassificationPosterior:
    value, gram, run = _evidence(process, observed, method)
    return ClassificationPosterior(process, observed, posterior_of_sites(gram, run.state), value, run, method)
