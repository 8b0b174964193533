r"""What dependent draws are worth, and how far off that leaves an answer: effective sizes and errors.

Size.        $n_{\mathrm{eff}} = nm/\tau$ with $\tau = 1 + 2\sum_t\hat\rho_t$ over split chains and
             $\hat\rho_t = 1 - (W - \bar\gamma_t)/\mathrm{VAR}^+$, $\bar\gamma_t$ the mean autocovariance:
             chains that disagree are worth less. The sum ends by Geyer's rule; $\tau \ge 1/\log_{10}(nm)$.
Kinds.       Bulk: of normal scores of the ranks. Quantile: of $1\{x \le \hat q_p\}$. Tail: the smaller of two
             quantile sizes, 5 % and 95 %.
Errors.      Mean: $\mathrm{sd}/\sqrt{n_{\mathrm{eff}}}$. Standard deviation: by the delta method from the
             error of the variance. Quantile: half the distance of the order statistics at the central 68 %
             of $\mathrm{Beta}(n_{\mathrm{eff}}p + 1, n_{\mathrm{eff}}(1 - p) + 1)$.
Variogram.   $V_k = \frac{1}{m(n-k)}\sum_j\sum_{i>k}(\psi_{ij} - \psi_{i-k,j})^2$,
             $\hat\rho_k = 1 - V_k/(2\,\mathrm{VAR}^+)$, summed to the first odd $T$ with
             $\hat\rho_{T+1} + \hat\rho_{T+2} < 0$: noisier at long lags, and unbiased there.
Energy.      $\mathrm{BFMI} = \sum_i(E_i - E_{i-1})^2/\sum_i(E_i - \bar E)^2$ per chain; below 0.3 momentum is
             renewed too timidly for the tails.
Cost.        Plain NumPy: one Fourier transform per chain and kind.
References.  Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021); Gelman et al. (2013) section 11.5;
             Betancourt (2016), "Diagnosing suboptimal cotangent disintegrations"; Geyer (1992).
"""

from typing import Any

import numpy as np
from scipy.special import betaincinv

from tractable.core.checks import check
from tractable.inference.trust.autocorrelation import initial_monotone_time, mean_autocovariance
from tractable.inference.trust.diagnostics import (
    as_chains,
    chain_variances,
    each_variable,
    halves_of,
    in_order,
    normal_scores,
    rank_order,
)

__all__ = [
    "bulk_effective_size", "effective_size", "energy_information", "mcse_mean", "mcse_quantile", "mcse_sd",
    "quantile_effective_size", "tail_effective_size", "variogram", "variogram_effective_size",
]  # fmt: skip

_ONE_SIGMA = 0.8413447460685429  # the normal distribution function at one


def effective_size(chains: Any) -> Any:
    r"""The number of independent draws whose mean would have the error that this mean has."""
    return each_variable(chains, lambda block: size_of(halves_of(block)))


def bulk_effective_size(chains: Any) -> Any:
    """The effective size after rank-normalisation: of location, even where moments do not exist."""

    def bulk(block: np.ndarray) -> np.ndarray:
        halves = halves_of(block)
        order = rank_order(halves)
        return size_of(normal_scores(in_order(halves, order), order).reshape(halves.shape))

    return each_variable(chains, bulk)


def quantile_effective_size(chains: Any, prob: float | int) -> Any:
    """The effective size of the share of draws below the empirical quantile at `prob`."""
    _check_prob(prob)

    def below(block: np.ndarray) -> np.ndarray:
        return indicator_size(block, np.quantile(block.reshape(len(block), -1), prob, axis=-1))

    return each_variable(chains, below)


def tail_effective_size(chains: Any, probs: tuple[float | int, float | int] = (0.05, 0.95)) -> Any:
    """The smaller of the effective sizes at two quantiles: how far interval ends may be trusted."""
    return np.minimum(*(quantile_effective_size(chains, prob) for prob in probs))[()]


def mcse_mean(chains: Any) -> Any:
    r"""$\mathrm{sd}/\sqrt{n_{\mathrm{eff}}}$, the standard error of the mean."""

    def error(block: np.ndarray) -> np.ndarray:
        spread = block.reshape(len(block), -1).std(-1, ddof=1)
        return spread / np.sqrt(size_of(halves_of(block)))

    return each_variable(chains, error)


def mcse_sd(chains: Any) -> Any:
    r"""The standard error of the standard deviation.

    $\sqrt{(E[c^4] - E[c^2]^2)/(4\,E[c^2]\,n_{\mathrm{eff}})}$ with $c$ the draws about their mean and the
    effective size of $c^2$.
    """

    def error(block: np.ndarray) -> np.ndarray:
        squares = (block - block.mean((1, 2), keepdims=True)) ** 2
        level, excess = squares.mean((1, 2)), squares.var((1, 2))
        return np.sqrt(excess / (4 * level * size_of(halves_of(squares))))

    return each_variable(chains, error)


def mcse_quantile(chains: Any, prob: float | int) -> Any:
    """The standard error of the empirical quantile at `prob`, from order statistics around it."""
    _check_prob(prob)

    def error(block: np.ndarray) -> np.ndarray:
        ranked = np.sort(block.reshape(len(block), -1), -1)
        top = ranked.shape[1] - 1
        worth = indicator_size(block, np.quantile(ranked, prob, axis=-1))
        a, b = worth * prob + 1, worth * (1 - prob) + 1
        low, high = (betaincinv(a, b, mass) * (top + 1) - 1 for mass in (1 - _ONE_SIGMA, _ONE_SIGMA))
        first = np.floor(np.maximum(low, 0)).astype(int)
        last = np.ceil(np.minimum(high, top)).astype(int)
        ends = np.take_along_axis(ranked, np.stack([first, last], -1), -1)
        return (ends[:, 1] - ends[:, 0]) / 2

    return each_variable(chains, error)


def variogram(chains: Any) -> np.ndarray:
    r"""$V_k$ for $k = 0 \dots n - 1$ along a new first axis: half of it over the variance is $1 - \rho_k$.

    Chains are taken as they are. By Fourier transforms: the sum of squares at each lag less twice that of
    products.
    """
    values = np.moveaxis(as_chains("chains", chains), (0, 1), (-2, -1)).astype(float)
    m, n = values.shape[-2:]
    squares = ((values - values.mean(-1, keepdims=True)) ** 2).sum(-2)
    last = np.cumsum(squares[..., ::-1], -1)[..., ::-1]  # of the last n - k
    first = np.cumsum(squares, -1)[..., ::-1]  # of the first n - k
    total = last + first - 2 * m * n * mean_autocovariance(values)
    return np.moveaxis(total / (m * np.arange(n, 0, -1)), -1, 0)


def variogram_effective_size(chains: Any) -> Any:
    r"""$nm/(1 + 2\sum_{k=1}^T\hat\rho_k)$ with correlations from the variogram, of two chains or more."""
    values = as_chains("chains", chains)
    count = values.shape[0]
    check(count > 1, "chains", "two chains or more", count, "Use `split_chains` to make two of one.")
    return each_variable(chains, _variogram_size)


def energy_information(energy: Any) -> np.ndarray:
    r"""$\sum_i(E_i - E_{i-1})^2/\sum_i(E_i - \bar E)^2$ of each chain of `(chains, draws)`.

    NaN without energies. About 1 where each step draws a fresh energy; above 1 is no fault.
    """
    values = as_chains("energy", energy).astype(float)
    check(values.ndim == 2, "energy", "of shape (chains, draws)", f"shape {values.shape}")
    with np.errstate(all="ignore"):
        change = (np.diff(values, axis=1) ** 2).sum(1)
        return change / ((values - values.mean(1, keepdims=True)) ** 2).sum(1)


def size_of(block: np.ndarray) -> np.ndarray:
    """The effective size of each variable of a block `(variables, chains, draws)`, chains as they are."""
    m, n = block.shape[-2:]
    covariance = mean_autocovariance(block)
    pooled = covariance[:, 0] + (block.mean(-1).var(-1, ddof=1) if m > 1 else 0.0)
    within = covariance[:, 0] * n / (n - 1)
    rho = 1 - (within[:, None] - covariance) / pooled[:, None]
    rho[:, 0] = 1
    return m * n / np.maximum(initial_monotone_time(rho), 1 / np.log10(m * n))


def indicator_size(block: np.ndarray, threshold: np.ndarray) -> np.ndarray:
    """The effective size of the draws at or below a threshold; all draws where all of them are."""
    below = halves_of((block <= threshold[:, None, None]).astype(float))
    size = below.shape[1] * below.shape[2]
    share = below.mean((1, 2))
    moving = (share > 0) & (share < 1)
    found = np.full(len(block), float(size))
    found[moving] = size_of(below[moving])
    return found


def _variogram_size(block: np.ndarray) -> np.ndarray:
    chains = np.moveaxis(block, 0, 2)
    m, n = chains.shape[:2]
    rho = (1 - variogram(chains) / (2 * chain_variances(chains).pooled)).T
    # pairs (2, 3), (4, 5), ... : the first negative one ends the sum after the odd lag before it
    pairs = rho[:, 2 : n - (n % 2) : 2] + rho[:, 3::2]
    kept = 2 * np.cumprod(pairs >= 0, -1).sum(-1) + 1
    used = np.arange(n)[None] <= kept[:, None]
    return m * n / (2 * (rho * used)[:, 1:].sum(-1) + 1)


def _check_prob(prob: float | int) -> None:
    check(0 < prob < 1, "prob", "strictly between 0 and 1", prob)
