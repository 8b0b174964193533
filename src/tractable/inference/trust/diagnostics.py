r"""Whether chains agree: variances within and between them, and R-hat: classic, split, ranked, nested.

Variances.   $m$ chains of $n$ draws, means $\bar\psi_j$, variances $s_j^2$:
             $W = \frac1m\sum_j s_j^2$, $B = \frac{n}{m-1}\sum_j(\bar\psi_j - \bar\psi)^2$,
             $\mathrm{VAR}^+ = \frac{n-1}{n}W + \frac1n B$.
R-hat.       $\hat R = \sqrt{\mathrm{VAR}^+/W}$; slightly below 1 where chains agree better than chance would.
             Split: each chain is cut into halves, so that one that still moves disagrees with itself. Ranked:
             draws are replaced by normal scores of their ranks, $z = \Phi^{-1}((r - 3/8)/(S + 1/4))$, and the
             larger of two values is taken, that of the draws and that of their distances from the median.
Nested.      Chains that began at one point form a superchain: $\sqrt{1 + B/W}$ with $B$ the variance of the
             superchains' means and $W$ the mean variance within them, between and within their chains.
Shapes.      `(chains, draws)` or `(chains, draws, ...)`; one answer per scalar variable. A variable that is
             constant, or not finite, has no answer: NaN, and `faults_of` says why.
Cost.        Plain NumPy, nothing is compiled: two sorts per variable for the ranked form.
References.  Gelman and Rubin (1992); Gelman et al. (2013) section 11.4; Vehtari, Gelman, Simpson, Carpenter
             and Buerkner (2021); Margossian et al. (2024), "Nested R-hat".
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from tractable.core.checks import check, check_count
from tractable.core.module import Module

__all__ = [
    "ChainVariances", "as_chains", "chain_variances", "classic_rhat", "each_variable", "faults_of",
    "nested_rhat", "normal_scores", "rhat", "split_chains", "split_rhat",
]  # fmt: skip

_BLOCK = 1 << 17  # numbers worked on at once: what a cache holds
_FARTHEST = 1e150  # beyond, squares are not finite
_FEWEST = 4  # draws per chain: halves of two


class ChainVariances(Module):
    """Variances within chains, between chains, and their weighting $\\mathrm{VAR}^+$."""

    within: Any
    between: Any
    pooled: Any


def as_chains(name: str, chains: Any, least: int = 1) -> np.ndarray:
    """`chains` as an array `(chains, draws, ...)` of real numbers; memory maps stay on disk."""
    values = np.asanyarray(chains)
    kind = values.dtype.kind
    check(kind in "biuf", name, "an array of real numbers", f"dtype {values.dtype}", error=TypeError)
    fix = "Give one chain as `draws[None]`."
    check(values.ndim >= 2, name, "of shape (chains, draws, ...)", f"shape {values.shape}", fix)
    check(min(values.shape[:2]) >= least, name, "at least one draw", f"shape {values.shape}")
    return values


def split_chains(chains: Any) -> np.ndarray:
    """The halves of each chain as chains of their own; of an odd number of draws the middle one is left out.

    >>> split_chains(np.array([[1, 2, 3, 4, 5]])).tolist()
    [[1, 2], [4, 5]]
    """
    values = as_chains("chains", chains)
    half = values.shape[1] // 2
    check(half > 0, "chains", "two draws or more per chain", f"shape {values.shape}")
    pairs = np.stack([values[:, :half], values[:, values.shape[1] - half :]], 1)
    return pairs.reshape(-1, half, *values.shape[2:])


def chain_variances(chains: Any) -> ChainVariances:
    r"""$W$, $B$ and $\mathrm{VAR}^+$ of chains as they are; $B$ needs two chains and is NaN for one.

    >>> found = chain_variances([[1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]])
    >>> [round(float(value), 6) for value in (found.within, found.between, found.pooled)]
    [1.666667, 2.0, 1.75]
    """
    values = as_chains("chains", chains)
    check(values.shape[1] >= 2, "chains", "two draws or more per chain", f"shape {values.shape}")
    return _variances(np.moveaxis(values, (0, 1), (-2, -1)))


def classic_rhat(chains: Any) -> Any:
    r"""$\sqrt{\mathrm{VAR}^+/W}$ of two chains or more, unsplit.

    >>> round(float(classic_rhat([[1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]])), 7)
    1.0246951
    """
    count = as_chains("chains", chains).shape[0]
    check(count > 1, "chains", "two chains or more", count, "Use `split_rhat`, which compares halves.")
    return each_variable(chains, _rhat, least=2)


def split_rhat(chains: Any) -> Any:
    """`classic_rhat` of the halves of the chains; one chain is enough."""
    return each_variable(chains, lambda block: _rhat(halves_of(block)))


def rhat(chains: Any) -> Any:
    """Rank-normalised split R-hat: the larger of that of the draws and of their distances from the median.

    Values up to 1.01 are good. It does not need moments, and is the same for any rising function of the draws
    as far as the first of the two goes.
    """

    def ranked(block: np.ndarray) -> np.ndarray:
        halves = halves_of(block)
        order = rank_order(halves)
        ranked = in_order(halves, order)
        return ranked_rhat(normal_scores(ranked, order).reshape(halves.shape), ranked, order)

    return each_variable(chains, ranked)


def nested_rhat(chains: Any, num_superchains: int) -> Any:
    r"""$\sqrt{1 + \tilde B/\tilde W}$ for many short chains: consecutive ones share a superchain.

    $\tilde B$ is the variance of the means of the superchains; $\tilde W$ the mean over superchains of the
    variance between their chains' means plus the mean variance inside their chains (zero for single draws).
    Chains of one superchain must have begun at one point.
    """
    values = as_chains("chains", chains)
    count = check_count("num_superchains", num_superchains, least=2)
    fix = "Use `split_rhat` for single chains."
    groups = f"a number that divides the {values.shape[0]} chains into two or more each"
    check(
        values.shape[0] % count == 0 and values.shape[0] > count,
        "num_superchains",
        groups,
        num_superchains,
        fix,
    )
    return each_variable(chains, lambda block: _nested(block, count), least=1)


def faults_of(chains: Any, least: int = _FEWEST) -> np.ndarray:
    """Why a variable has no diagnostics: a sentence per scalar variable, empty where there is no fault."""
    values = as_chains("chains", chains)
    flat = values.reshape(*values.shape[:2], -1)
    found = np.full(flat.shape[2], "", dtype="U48")
    for span in spans_of(flat):
        found[slice(*span)] = screen(block_of(flat, span), least)
    return found.reshape(values.shape[2:])


def normal_scores(ranked: np.ndarray, order: np.ndarray) -> np.ndarray:
    r"""$\Phi^{-1}((r - 3/8)/(S + 1/4))$ with $r$ the rank among all $S$ draws of a variable, ties averaged.

    From the draws of each variable in rising order, and the places `(variables, S)` where they go back to.
    """
    scores = _score_table(ranked.shape[1])
    values = np.empty(ranked.shape)
    tied = ranked[:, 1:] == ranked[:, :-1]
    for row, (places, ties) in enumerate(zip(order, tied)):
        values[row][places] = scores[sum(_tied_places(ties))] if ties.any() else scores[::2]
    return values


def each_variable(chains: Any, function: Callable[[np.ndarray], np.ndarray], least: int = _FEWEST) -> Any:
    """`function` of blocks `(variables, chains, draws)` of the variables without a fault; NaN elsewhere."""
    values = as_chains("chains", chains)
    flat = values.reshape(*values.shape[:2], -1)
    found = np.full(flat.shape[2], np.nan)
    for span in spans_of(flat):
        block = block_of(flat, span)
        good = screen(block, least) == ""
        if good.any():
            with np.errstate(divide="ignore", invalid="ignore"):
                found[span[0] + np.flatnonzero(good)] = function(block[good])
    return found.reshape(values.shape[2:])[()]


def ranked_rhat(scores: np.ndarray, ranked: np.ndarray, order: np.ndarray) -> np.ndarray:
    """`rhat` of a block from the normal scores of its split chains, and the draws behind them in order."""
    size = ranked.shape[1]
    low, high = (size - 1) // 2, size // 2
    distance = np.abs(ranked - (ranked[:, [low]] + ranked[:, [high]]) / 2)
    distance[:, low] = distance[:, high]  # as far from the median as each other, but for rounding
    # distances fall and then rise along the draws in order: merging two runs is quick
    runs = np.argsort(distance, -1, kind="stable")
    places = np.stack([old[run] for old, run in zip(order, runs)])
    folded = normal_scores(in_order(distance, runs), places).reshape(scores.shape)
    return np.fmax(_rhat(scores), _rhat(folded))


def rank_order(block: np.ndarray) -> np.ndarray:
    """What sorts all draws of each variable of a block."""
    return np.argsort(block.reshape(len(block), -1), -1)


def in_order(block: np.ndarray, order: np.ndarray) -> np.ndarray:
    """All draws of each variable in rising order; row by row, so that what is gathered stays in the cache."""
    return np.stack([draws[places] for draws, places in zip(block.reshape(len(block), -1), order)])


def screen(block: np.ndarray, least: int) -> np.ndarray:
    """The fault of each variable of a block, as `faults_of` says it."""
    flat = block.reshape(len(block), -1)
    low, high = flat.min(-1), flat.max(-1)  # NaN and infinities come through
    finite = (low > -_FARTHEST) & (high < _FARTHEST)
    found = np.where(finite, np.where(low == high, "constant", ""), "not finite").astype("U48")
    if block.shape[2] < least:
        found[found == ""] = f"fewer than {least} draws per chain"
    return found


def spans_of(flat: np.ndarray) -> list[tuple[int, int]]:
    """Where the variables of each block of `(chains, draws, variables)` begin and end."""
    size = max(_BLOCK // (flat.shape[0] * flat.shape[1]), 1)
    return [(start, min(start + size, flat.shape[2])) for start in range(0, flat.shape[2], size)]


def block_of(flat: np.ndarray, span: tuple[int, int]) -> np.ndarray:
    """The variables of one span as contiguous floats `(variables, chains, draws)`."""
    columns = np.asarray(flat[:, :, slice(*span)])
    return np.ascontiguousarray(np.moveaxis(columns, 2, 0), dtype=float)


def halves_of(block: np.ndarray) -> np.ndarray:
    half = block.shape[2] // 2
    pairs = np.stack([block[:, :, :half], block[:, :, block.shape[2] - half :]], 2)
    return pairs.reshape(len(block), -1, half)


def _rhat(block: np.ndarray) -> np.ndarray:
    found = _variances(block)
    return np.sqrt(found.pooled / found.within)


def _variances(block: np.ndarray) -> ChainVariances:
    """Along the last two axes, chains and draws."""
    m, n = block.shape[-2:]
    within = block.var(-1, ddof=1).mean(-1)
    between = n * block.mean(-1).var(-1, ddof=1) if m > 1 else np.full(block.shape[:-2], np.nan)
    return ChainVariances(within, between, (n - 1) / n * within + between / n)


def _nested(block: np.ndarray, count: int) -> np.ndarray:
    groups = block.reshape(len(block), count, -1, block.shape[2])
    means = groups.mean(3)
    inside = groups.var(3, ddof=1).mean(2) if block.shape[2] > 1 else np.zeros(means.shape[:2])
    within = (means.var(2, ddof=1) + inside).mean(1)
    return np.sqrt(1 + means.mean(2).var(1, ddof=1) / within)


@lru_cache(maxsize=4)
def _score_table(size: int) -> np.ndarray:
    """Scores of the ranks 1, 3/2, 2, ..., S: entry i belongs to the rank 1 + i/2."""
    ranks = 1 + np.arange(2 * size - 1) / 2
    return ndtri((ranks - 0.375) / (size + 0.25))


def _tied_places(tied: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and last place of each group of equal draws; `tied[i]` says that draw i + 1 in order equals i."""
    places = np.arange(len(tied) + 1)
    begins, ends = np.append(True, ~tied), np.append(~tied, True)
    first = np.maximum.accumulate(np.where(begins, places, 0))
    last = np.minimum.accumulate(np.where(ends, places, len(tied))[::-1])[::-1]
    return first, last
