r"""Everything that the draws of chains say about themselves, for all scalar variables in one pass.

Answers.     Per variable: mean, sd, quantiles, error of the mean, bulk and tail effective size, R-hat. They
             share one sort and one set of normal scores; each has its own definition in
             inference.trust.diagnostics and inference.effective_size.
Names.       A pytree of arrays `(chains, draws, ...)` holds scalars `theta[0]`, `tau`, `a.b[1, 2]`.
Cost.        Two sorts and four Fourier transforms per variable; memory for a few variables at a time, also
             where the arrays are memory maps.
References.  Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021).
"""

import os
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from tractable.core.checks import check
from tractable.core.interrupts import in_threads
from tractable.core.module import Module, field
from tractable.inference.trust.diagnostics import (
    as_chains,
    block_of,
    halves_of,
    in_order,
    normal_scores,
    rank_order,
    ranked_rhat,
    screen,
    spans_of,
)
from tractable.inference.trust.effective_size import indicator_size, size_of

__all__ = ["PROBS", "ChainReport", "column", "examine", "named_leaves", "variable_names"]

PROBS = (0.05, 0.25, 0.5, 0.75, 0.95)
_THREADS = min(os.cpu_count() or 1, 4)


class ChainReport(Module):
    """One entry per scalar variable; `reasons` say why an entry has no diagnostics, and are else empty."""

    mean: np.ndarray
    sd: np.ndarray
    quantiles: np.ndarray  # (variables, probabilities)
    mcse: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    rhat: np.ndarray
    names: tuple[str, ...] = field(static=True)
    reasons: tuple[str, ...] = field(static=True)
    probs: tuple[float, ...] = field(static=True, default=PROBS)


def examine(draws: Any, probs: Sequence[float | int] = PROBS) -> ChainReport:
    """The report on a pytree of arrays `(chains, draws, ...)`; NaN throughout where there are no draws."""
    probs = tuple(float(p) for p in probs)
    check(all(0 <= p <= 1 for p in probs), "probs", "between 0 and 1", probs)
    leaves = named_leaves(draws)
    names = [scalar for name, leaf in leaves for scalar in variable_names(name, leaf)]
    check(bool(names), "draws", "a pytree with at least one array", "none")
    if leaves[0][1].size == 0:
        none = np.full(len(names), np.nan)
        table = np.full((len(names), len(probs)), np.nan)
        reasons = ("no draws",) * len(names)
        return ChainReport(none, none, table, none, none, none, none, tuple(names), reasons, probs)
    flats = [leaf.reshape(leaf.shape[0], leaf.shape[1], -1) for _, leaf in leaves]
    tasks = [(flat, span) for flat in flats for span in spans_of(flat)]
    # sorts and transforms leave the interpreter free
    parts = list(in_threads(lambda task: _rows(block_of(*task), probs), tasks, _THREADS))
    reasons = np.concatenate([part[0] for part in parts]).tolist()
    table = np.concatenate([part[1] for part in parts])
    mean, sd, mcse, bulk, tail, rhat = table[:, :6].T
    return ChainReport(mean, sd, table[:, 6:], mcse, bulk, tail, rhat, tuple(names), tuple(reasons), probs)


def named_leaves(draws: Any) -> list[tuple[str, np.ndarray]]:
    """The dotted name of each array of a pytree, and the array; one bare array is called `x`."""
    found, _ = jax.tree_util.tree_flatten_with_path(draws)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") or "x" for path, _ in found]
    leaves = [(name, as_chains(name, leaf, least=0)) for name, (_, leaf) in zip(names, found)]
    shapes = {leaf.shape[:2] for _, leaf in leaves}
    check(len(shapes) <= 1, "draws", "arrays that share their first two axes (chains, draws)", shapes)
    return leaves


def variable_names(name: str, leaf: np.ndarray) -> list[str]:
    """`tau` for an array `(chains, draws)`, `theta[0]`, `theta[1]`, ... for one with further axes."""
    shape = leaf.shape[2:]
    if not shape:
        return [name]
    return [f"{name}[{', '.join(map(str, index))}]" for index in np.ndindex(*shape)]


def column(draws: Any, variable: str) -> np.ndarray:
    """The draws `(chains, draws)` of one scalar variable, by the name that the report gives it."""
    known = []
    for name, leaf in named_leaves(draws):
        names = variable_names(name, leaf)
        if variable in names:
            return np.asarray(leaf.reshape(*leaf.shape[:2], -1)[:, :, names.index(variable)])
        known += names
    shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
    raise ValueError(f"`variable` must be one of {shown}; got {variable!r}.")


def _rows(block: np.ndarray, probs: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Reasons, and rows (mean, sd, mcse, bulk, tail, R-hat, quantiles): NaN where there is a reason."""
    reasons = screen(block, 4)
    flat, good = block.reshape(len(block), -1), reasons == ""
    found = np.full((len(block), 6 + len(probs)), np.nan)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found[:, 0], found[:, 1] = flat.mean(-1), flat.std(-1, ddof=min(flat.shape[1] - 1, 1))
        if not good.all():
            found[~good, 6:] = np.quantile(flat[~good], probs, axis=-1).T
        if good.any():
            found[good, 2:] = _diagnostics(block[good], found[good, 1], probs)
    return reasons, found


def _diagnostics(block: np.ndarray, sd: np.ndarray, probs: tuple[float, ...]) -> np.ndarray:
    halves = halves_of(block)
    order = rank_order(halves)
    ranked = in_order(halves, order)
    scores = normal_scores(ranked, order).reshape(halves.shape)
    bulk, rhat = size_of(scores), ranked_rhat(scores, ranked, order)
    if ranked[0].size < block[0].size:  # an odd number of draws: the halves leave the middle ones out
        ranked = np.sort(block.reshape(len(block), -1), -1)
    ends = [indicator_size(block, end) for end in _quantiles(ranked, (0.05, 0.95)).T]
    mcse = sd / np.sqrt(size_of(halves))
    return np.column_stack([mcse, bulk, np.minimum(*ends), rhat, _quantiles(ranked, probs)])


def _quantiles(ranked: np.ndarray, probs: tuple[float, ...]) -> np.ndarray:
    """Of sorted rows, by linear interpolation between order statistics."""
    place = np.asarray(probs) * (ranked.shape[1] - 1)
    low = np.floor(place).astype(int)
    high = np.minimum(low + 1, ranked.shape[1] - 1)
    return ranked[:, low] + (place - low)[None] * (ranked[:, high] - ranked[:, low])
