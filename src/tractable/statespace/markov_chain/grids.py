r"""Markov chains on the line, cut into the cells of a grid: kernels with densities as finite chains.

Kernel.      $\pi'(y) = \int\pi(x)K(x \to y)\,dx$ becomes $P_{ij} = K(x_i \to x_j)w_j$ with the width $w_j$ of
             cell $j$, each row divided by its sum. What a row lacks of one left the grid: `leak`.
Example.     $y = \phi x + \sigma z$: the equilibrium is $N(0, \sigma^2/(1 - \phi^2))$.
Cost.        $O(n^2)$ evaluations of the density.
References.  Tauchen (1986).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tractable.core.checks import check, check_entries
from tractable.core.module import HostResult, field
from tractable.core.verdict import Verdict
from tractable.statespace.markov_chain.chain import MarkovChain

__all__ = ["GridChain", "kernel_on_grid"]


class GridChain(HostResult):
    """A chain on the points of a grid that stands for one on the line."""

    chain: MarkovChain
    points: np.ndarray
    widths: np.ndarray = field(show=False)
    leak: float = field(about="the largest probability of leaving the grid, from any point")

    def stationary_density(self) -> np.ndarray:
        """The density of the equilibrium at the points."""
        return self.chain.stationary() / self.widths

    @property
    def stationary_leak(self) -> float:
        """The probability of leaving the grid in one step of equilibrium."""
        return float(self.chain.stationary() @ self.leaks)

    leaks: np.ndarray = field(show=False, default=None)

    @property
    def verdict(self) -> Verdict:
        """Whether the grid is wide and fine enough for what happens in equilibrium."""
        lost = self.stationary_leak
        if abs(lost) <= 1e-6:
            return Verdict(
                True, "The grid holds the chain: rows summed to one where it lives.", {"leak": lost}
            )
        said = "too narrow, or too coarse for the density"
        return Verdict(False, f"The grid is {said}: {abs(lost):.2g} is lost per step.", {"leak": lost})


def kernel_on_grid(density: Callable[[Any, Any], Any], points: Any) -> GridChain:
    r"""The chain with $K(x \to y)$ = `density(x, y)` (arrays in, arrays out) on sorted points.

    >>> step = lambda x, y: np.exp(-0.5 * (y - 0.5 * x) ** 2) / np.sqrt(2 * np.pi)
    >>> kernel_on_grid(step, np.linspace(-8, 8, 161)).verdict
    The grid holds the chain: rows summed to one where it lives.
    """
    x = np.asarray(points, float)
    check(x.ndim == 1 and len(x) > 1, "points", "a vector of at least two points", f"shape {x.shape}")
    check(bool((np.diff(x) > 0).all()), "points", "sorted, each beyond the one before", "others")
    widths = np.gradient(x)
    values = np.broadcast_to(np.asarray(density(x[:, None], x[None, :]), float), (len(x), len(x)))
    check_entries("density", values, lambda v: (v >= 0) & np.isfinite(v), "zero or positive, and finite")
    mass = values * widths
    totals = mass.sum(1)
    must = "positive somewhere on the grid from every point"
    check(bool((totals > 0).all()), "density", must, f"none from {x[np.argmin(totals)]:.6g}")
    chain = MarkovChain(mass / totals[:, None])
    return GridChain(chain, x, widths, float(np.abs(1 - totals).max()), 1 - totals)
