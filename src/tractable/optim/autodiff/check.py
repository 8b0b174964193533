r"""Is this gradient right? Hand-written or automatic derivatives against central differences.

Error.       $\|a - n\| / (\|a\| + \|n\|)$ for the analytic gradient $a$ and the numeric one $n$: below
             $10^{-6}$ a gradient is right, above $10^{-3}$ it is wrong, and in between look for kinks.
Sensitivity. The entries by $|\partial_i f|\,(1 + |x_i|)$: how much the cost answers to a small relative
             change of each number.
Cost.        Two evaluations of the function for each entry.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from tractable.core.checks import as_float, check
from tractable.core.matrixcalculus import central_difference
from tractable.core.module import Module, field
from tractable.core.types import Float

__all__ = ["GradientReport", "check_gradient"]

_LISTED = 5


class GradientReport(Module):
    """Both gradients, how far they are apart, and where; printed as a table with a verdict."""

    analytic: Float[np.ndarray, " n"]
    numeric: Float[np.ndarray, " n"]
    sensitivity: Float[np.ndarray, " n"]
    names: tuple[str, ...] = field(static=True)
    tol: float = field(static=True)

    @property
    def relative_error(self) -> float:
        r"""$\|a - n\| / (\|a\| + \|n\|)$; zero where both vanish."""
        total = np.linalg.norm(self.analytic) + np.linalg.norm(self.numeric)
        gap = np.linalg.norm(self.analytic - self.numeric)
        return float(gap / total) if total != 0 else 0.0

    @property
    def errors(self) -> np.ndarray:
        r"""$|a_i - n_i|$, relative to the largest entry of either gradient."""
        largest = max(np.abs(self.analytic).max(), np.abs(self.numeric).max())
        return np.abs(self.analytic - self.numeric) / (largest if largest > 0 else 1.0)

    @property
    def ok(self) -> bool:
        """Whether the gradients agree to the tolerance; a NaN agrees with nothing."""
        return self.relative_error <= self.tol

    def __repr__(self) -> str:
        """The verdict, then the worst entries and the most sensitive ones."""
        word = "right" if self.ok else "WRONG"
        sign = "<=" if self.ok else ">"
        lines = [f"Gradient {word}: relative error {self.relative_error:.1e} {sign} {self.tol:.0e}"]
        errors = np.where(np.isnan(self.errors), np.inf, self.errors)
        for title, order in (("worst entries", errors), ("most sensitive", self.sensitivity)):
            header = f"  {title:<20}{'analytic':>14}{'numeric':>14}{'error':>10}{'sensitivity':>13}"
            lines.append(header)
            for i in np.argsort(-order, kind="stable")[:_LISTED]:
                numbers = f"{self.analytic[i]:>14.6g}{self.numeric[i]:>14.6g}{errors[i]:>10.1e}"
                lines.append(f"  {self.names[i]:<20}{numbers}{self.sensitivity[i]:>13.4g}")
        return "\n".join(lines)


def check_gradient(
    function: Callable[..., Any],
    x: Any,
    gradient: Callable[..., Any] | None = None,
    *,
    args: tuple = (),
    tol: float = 1e-6,
    step: float = 1e-5,
) -> GradientReport:
    """Compare `gradient(x, *args)`, by default JAX's, with central differences of `function(x, *args)`.

    `x` is any pytree of floats and the gradient has its structure. The step is relative for
    entries above one.

    >>> check_gradient(lambda x: x**3, 2.0, lambda x: 3 * x**2).ok
    True
    """
    x = jax.tree.map(lambda leaf: as_float("x", leaf), x)
    flat, unravel = ravel_pytree(x)
    supplied = jax.grad(function)(x, *args) if gradient is None else gradient(x, *args)
    analytic = np.asarray(ravel_pytree(jax.tree.map(lambda leaf: as_float("gradient", leaf), supplied))[0])
    fix = "It has one entry for each entry of `x`, in the same structure."
    check(analytic.shape == flat.shape, "gradient", f"of {flat.size} entries", f"{analytic.size}", fix)
    point = np.asarray(flat, float)
    scale = np.maximum(1.0, np.abs(point))

    def scaled(u: np.ndarray) -> Any:
        return function(unravel(jnp.asarray(u * scale, flat.dtype)), *args)

    numeric = np.asarray(central_difference(scaled, point / scale, step)) / scale
    sensitivity = np.abs(analytic) * (1 + np.abs(point))
    return GradientReport(np.asarray(analytic, float), numeric, sensitivity, tuple(_names(x)), tol)


def _names(x: Any) -> list[str]:
    """A name for each entry: the path of its leaf and its index there."""
    names = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(x):
        stem = jax.tree_util.keystr(path) or "x"
        names += [f"{stem}{list(index) if index else ''}" for index in np.ndindex(leaf.shape)]
    return names
