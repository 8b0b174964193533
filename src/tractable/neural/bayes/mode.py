r"""The mode of the weights: the fit that a prior regularises, from one start or the best of several.

Problem.     $\min_w -\sum_n \log p(y_n \mid f_w(x_n)) - \log p(w)$: least squares or cross-entropy with the
             penalty of the prior.
Method.      L-BFGS on all rows at once, so that the mode is one; proximal steps for a Laplace prior, whose
             modes are sparse.
Cost.        One gradient over all rows per step.
"""

from tractable.core.types import Array, Float, Scalar
from tractable.neural.bayes.priors import LaplaceWeights
from tractable.neural.bayes.statement import BayesianNetwork
from tractable.optim.minimise import Minimum, minimise
from tractable.optim.proximal import L1Penalty, ProximalGradient

__all__ = ["find_mode"]


def find_mode(
    stated: BayesianNetwork, start: Float[Array, " p"], *, max_steps: int = 5000, tol: float = 1e-8
) -> Minimum:
    """The weights of highest density from `start`, `result.state`, and how the search ended."""
    options = {"args": (stated,), "max_steps": max_steps, "tol": tol, "curvature": False}
    if isinstance(stated.prior, LaplaceWeights):
        return minimise(_misfit, start, ProximalGradient(penalty=L1Penalty(stated.prior.rate)), **options)
    return minimise(_loss, start, **options)


def _loss(weights: Array, stated: BayesianNetwork) -> Scalar:
    return -stated.log_joint(weights)


def _misfit(weights: Array, stated: BayesianNetwork) -> Scalar:
    return -stated.log_likelihood(weights)
