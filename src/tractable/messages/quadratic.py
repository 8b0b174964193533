r"""Quadratic potentials: Gaussians before they are normalised, in information form with named vectors.

Form.        $\log f(x) = -\frac12 x^\top \Lambda x + h^\top x + c$. Products add; marginals are Schur
             complements; conditioning selects blocks.
Cost.        $O(d^3)$ for a marginal, additions for the rest.
References.  Koller and Friedman (2009) section 14.2; Bishop (2006) section 2.3.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_entries, check_shape
from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Scalar
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.gaussian_forms import (
    GaussianInformation,
    integrate_out,
    log_integral,
    to_covariance,
    to_information,
)
from tractable.distributions.table_axes import Names, as_names
from tractable.messages.potentials import numbers
from tractable.messages.semirings import namespace

__all__ = ["Quadratic"]


class Quadratic(Module):
    r"""$\log f(x) = -\frac12 x^\top \Lambda x + h^\top x + c$ for named vectors stacked in $x$.

    $\Lambda$ = `precision` need not be definite: only what is integrated out must be. `dims` gives the length
    of each vector; by default all are numbers (a single one is all of $x$).

    >>> f = Quadratic(["a", "b"], [[2.0, -1.0], [-1.0, 2.0]], [1.0, 0.0])
    >>> f.marginal("a").precision.tolist(), f.marginal("a").shift.tolist()
    ([[1.5]], [1.0])
    """

    precision: Float[Array, "d d"] | Float[np.ndarray, "d d"]  # NumPy where there are values
    shift: Float[Array, " d"] | Float[np.ndarray, " d"]
    constant: Scalar | Float[np.ndarray, ""]
    names: tuple[str, ...] = field(static=True)
    dims: tuple[int, ...] = field(static=True)

    def __init__(
        self,
        names: Names,
        precision: Any,
        shift: Any,
        constant: Any = 0.0,
        dims: Sequence[int] | None = None,
        *,
        validate: bool = True,
    ):
        """Without `validate` values are taken as they are: NaN where an integral does not exist."""
        self.names = as_names(names)
        whole = (np.size(shift),) if len(self.names) == 1 else (1,) * len(self.names)
        self.dims = whole if dims is None else tuple(dims)
        check(len(self.dims) == len(self.names), "dims", f"one per name {self.names}", self.dims)
        size = sum(self.dims)
        self.precision, self.shift = _floats("precision", precision), _floats("shift", shift)
        self.constant = _floats("constant", constant)
        check_shape("precision", self.precision, (size, size), f"The vectors {self.names} have {self.dims}.")
        check_shape("shift", self.shift, (size,))
        if validate:
            check_entries("precision", self.precision, _symmetric, "finite and symmetric")

    @classmethod
    def from_gaussian(cls, names: Names, gaussian: Any, dims: Sequence[int] | None = None) -> "Quadratic":
        """The density of a Gaussian in any form, as a potential of total one."""
        form = to_information(gaussian)
        return cls(names, form.precision, form.shift, -log_integral(form.precision, form.shift), dims)

    @classmethod
    def linear(
        cls, target: str, given: Names, weights: Any, noise_precision: Any, bias: Any = 0.0
    ) -> "Quadratic":
        r"""The conditional density $N(y \mid w^\top x + b, 1/\beta)$ of a number given others, $\beta$ =
        `noise_precision`."""
        row = jnp.concatenate([as_float("weights", weights).reshape(-1), -jnp.ones(1)])
        beta, bias = as_float("noise_precision", noise_precision), as_float("bias", bias)
        constant = 0.5 * (jnp.log(beta) - math.log(2 * math.pi)) - 0.5 * beta * bias**2
        return cls((*as_names(given), target), beta * jnp.outer(row, row), -beta * bias * row, constant)

    def block(self, name: str) -> np.ndarray:
        """The coordinates of one vector."""
        check(name in self.names, "name", f"among {self.names}", repr(name))
        start = sum(self.dims[: self.names.index(name)])
        return np.arange(start, start + self.dims[self.names.index(name)])

    def __mul__(self, other: "Quadratic") -> "Quadratic":
        """The product: precisions, shifts and constants add."""
        sizes = dict(zip(self.names, self.dims))
        for name, dim in zip(other.names, other.dims):
            known = sizes.setdefault(name, dim)
            check(known == dim, name, f"of length {known} in both potentials", dim)
        names, dims = tuple(sizes), tuple(sizes.values())
        precision, shift = self._embedded(names, dims)
        more, force = other._embedded(names, dims)
        precision, shift = precision + more, shift + force
        return Quadratic(names, precision, shift, self.constant + other.constant, dims, validate=False)

    def contract(self, other: "Quadratic", keep: Names = ()) -> "Quadratic":
        """The product, integrated over all variables but `keep`."""
        return (self * other).marginal(keep)

    def marginal(self, names: Names) -> "Quadratic":
        r"""The integral over all other vectors; NaN where it does not exist ($\Lambda_{bb}$ not definite)."""
        kept_names = as_names(names)
        kept = _join(self.block(name) for name in kept_names)
        dropped = np.setdiff1d(np.arange(self.shift.size), kept)
        dims = tuple(self.dims[self.names.index(name)] for name in kept_names)
        if dropped.size == 0:
            moved = self.precision[kept[:, None], kept[None]]
            return Quadratic(kept_names, moved, self.shift[kept], self.constant, dims, validate=False)
        precision, shift, inner = integrate_out(self.precision, self.shift, kept, dropped)
        return Quadratic(kept_names, precision, shift, self.constant + inner, dims, validate=False)

    def condition(self, values: Mapping[str, Any]) -> "Quadratic":
        r"""The potential of the other vectors at these values: $\Lambda_{aa}$ and $h_a - \Lambda_{ab} v$."""
        known = _join(self.block(name) for name in values)
        parts = [_floats(name, value).reshape(-1) for name, value in values.items()]
        v = namespace(*parts).concatenate(parts)
        check_shape("values", v, known.shape)
        names = tuple(name for name in self.names if name not in values)
        rest = _join(self.block(name) for name in names)
        inner = self.precision[known[:, None], known[None]] @ v
        constant = self.constant + self.shift[known] @ v - 0.5 * v @ inner
        shift = self.shift[rest] - self.precision[rest[:, None], known[None]] @ v
        dims = tuple(dim for name, dim in zip(self.names, self.dims) if name not in values)
        block = self.precision[rest[:, None], rest[None]]
        return Quadratic(names, block, shift, constant, dims, validate=False)

    def log_total(self) -> Scalar:
        r"""$\log \int f(x)\,dx$; NaN where it diverges."""
        inner = log_integral(jnp.asarray(self.precision), jnp.asarray(self.shift)) if self.names else 0.0
        return jnp.asarray(self.constant) + inner

    def normalised(self) -> Gaussian:
        """The Gaussian in proportion to the potential; an error where there is none."""
        return to_covariance(GaussianInformation(self.precision, self.shift))

    def _embedded(self, names: tuple[str, ...], dims: tuple[int, ...]) -> tuple[Any, Any]:
        """Precision and shift over more vectors, of which the others are not spoken of."""
        ends = dict(zip(names, np.cumsum(dims)))
        at = _join(np.arange(ends[n] - d, ends[n]) for n, d in zip(self.names, self.dims))
        select = np.zeros((len(at), sum(dims)))
        select[np.arange(len(at)), at] = 1.0
        return select.T @ self.precision @ select, select.T @ self.shift


def _join(parts: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.empty(0, int), *parts])


def _floats(name: str, value: Any) -> Any:
    """Floats in NumPy where there are values; tracers as they are."""
    plain = isinstance(value, np.ndarray) and value.dtype == np.float64
    return value if plain else numbers(as_float(name, value))


def _symmetric(cells: np.ndarray) -> np.ndarray:
    return np.isfinite(cells) & (np.abs(cells - cells.T) <= 1e-8 * (1 + np.abs(cells)))
