r"""The singularity of a mixture's likelihood: shown, and guarded by a rule that says when it acted.

Singularity. With $\mu_j = x_n$ and $\Sigma_j = \sigma^2I$, $N(x_n; x_n, \sigma^2I) =
             (2\pi)^{-d/2}\sigma^{-d} \to \infty$, while another component keeps every other row's density
             away from zero: the likelihood has no maximum. One Gaussian alone is safe, since the other
             rows' densities fall like $e^{-c/\sigma^2}$.
Guards.      A floor (no variance below a millionth of its column's, by default; exact constrained M-step), a
             prior (`with_prior`), or new starts where a fit has collapsed
             (`gaussian_mixture(num_starts=...)`).
Report.      `judge` says which components lie on the floor, and which have lost their rows.
References.  Day (1969); Hathaway (1985); Bishop (2006) section 9.2.1.
"""

from typing import Any

import numpy as np

from tractable.core.checks import as_float, check, check_count
from tractable.core.types import ArrayLike
from tractable.core.verdict import Verdict
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.normal_priors import NormalInverseWishart
from tractable.distributions.spreads import Full, Tied
from tractable.inference.expectation_maximisation.prior import WithPrior
from tractable.latent.mixtures.gaussian import GaussianMixture, MixtureStatistics, SoftMoments

__all__ = ["judge", "singular_path", "with_prior"]


def judge(model: GaussianMixture) -> Verdict:
    """Whether a fitted mixture may be used as it is.

    >>> judge(GaussianMixture([0.5, 0.5], [[0.0], [9.0]], np.ones((2, 1, 1))))
    Sound: 2 components above the floor.
    """
    k, least = model.num_components, np.asarray(model.least)
    variance = np.diagonal(np.asarray(model.covariances), axis1=1, axis2=2)
    constant = np.flatnonzero((least > 0) & (variance <= (1 + 1e-6) * least).all(0)).tolist()
    moving = np.setdiff1d(np.arange(model.dim), constant)
    low = [] if not len(moving) else np.flatnonzero(_below(model, moving)).tolist()
    empty = np.flatnonzero(np.asarray(model.weights) == 0).tolist()
    numbers = {"num_on_floor": len(low), "num_empty": len(empty), "num_constant": len(constant)}
    numbers |= {"on_floor": low, "empty": empty, "constant": constant}
    said = []
    if constant:
        said.append(
            f"Columns {constant} are constant: they have no density, and stand on the floor. Drop them."
        )
    if low:
        said.append(
            f"Components {low} lie on the floor of the covariance: without it the likelihood would grow "
            "without bound, or columns are dependent there. "
            "Use fewer components, a prior, other starts, or drop columns."
        )
    if empty:
        said.append(f"Components {empty} hold no rows: use fewer components or another start.")
    return Verdict(not said, " ".join(said) or f"Sound: {k} components above the floor.", numbers)


def singular_path(rows: ArrayLike, scales: ArrayLike, row: int = 0) -> np.ndarray:
    r"""The log-likelihood of $\frac12N(x_n, \sigma^2I) + \frac12N(\bar x, S)$, $n$ = `row`, at each
    $\sigma$ of `scales`: it grows like $-d\log\sigma$.

    >>> path = singular_path([[0.0], [1.0], [3.0]], [1e-5, 1e-8, 1e-11])
    >>> np.diff(path).round(3).tolist()
    [6.908, 6.908]
    """
    xs = np.asarray(as_float("rows", rows))
    row = check_count("row", row, least=0, most=len(xs) - 1)
    wide, dim = Gaussian.fit(xs), xs.shape[1]
    found = []
    for scale in np.asarray(scales, float):
        cov = np.stack([scale**2 * np.eye(dim), np.asarray(wide.cov)])
        means = np.stack([xs[row], np.asarray(wide.mean)])
        found.append(float(GaussianMixture([0.5, 0.5], means, cov, floor=0.0).log_prob(xs).sum()))
    return np.array(found)


def with_prior(
    model: GaussianMixture, component: NormalInverseWishart, concentration: ArrayLike = 1.0
) -> WithPrior:
    r"""The model for `EM()` whose M-step gives the posterior mode under $w \sim \mathrm{Dir}(\alpha)$ and
    $(\mu_k, \Sigma_k) \sim \mathrm{NIW}(m, \kappa, \nu, \Psi)$: with $\nu$ and $\Psi$ no component can
    collapse.

    The mode is $w_k \propto N_k + \alpha_k - 1$, $\mu_k = (\kappa m + \sum_n r_{nk}x_n)/(\kappa + N_k)$ and
    $\Sigma_k = (\Psi + S_k + \frac{\kappa N_k}{\kappa + N_k}(\bar x_k - m)(\bar x_k - m)^\top)/(\nu + d + 2
    + N_k)$.
    """
    k, dim = model.num_components, model.dim
    alpha = np.broadcast_to(np.asarray(as_float("concentration", concentration)), (k,))
    check(bool((alpha >= 1).all()), "concentration", "at least 1, for a mode inside the simplex", alpha.min())
    wanted = component.loc.shape
    check(wanted == (dim,), "component", f"a prior of {dim} columns", f"shape {wanted}")
    share = k if isinstance(model.spread, Tied) else 1  # the one covariance has the prior once
    away = np.asarray(component.loc) - np.asarray(model.centre)
    kappa = float(component.mean_scale)
    second = np.asarray(component.scale) / share + kappa * np.outer(away, away)
    second = second if model.spread.needs_full else np.diagonal(second)
    moments = SoftMoments(np.full(k, kappa), np.tile(kappa * away, (k, 1)), np.stack([second] * k))
    divisor = np.full(k, (float(component.degrees) + dim + 2) / share)
    return WithPrior(model, MixtureStatistics(alpha - 1, divisor, moments))


def _below(model: GaussianMixture, columns: np.ndarray) -> np.ndarray:
    """Which components lie on the floor, judged by some of the columns."""
    if len(columns) == model.dim:
        return model.spread.on_floor(model.num_components, model.least)
    cov = np.asarray(model.covariances)[:, columns[:, None], columns]
    return Full(cov).on_floor(model.num_components, np.asarray(model.least)[columns])


def at_fault(model: Any) -> int:
    """How many components lie on the floor or are empty."""
    numbers = judge(model).numbers
    return numbers["num_on_floor"] + numbers["num_empty"]
