r"""Of which class is a kernel, and how smooth are its paths: what is declared, and what is measured.

Classes.     Stationary: $k$ depends on $x - x'$; isotropic: on $\|x - x'\|$; dot-product: on $x^\top x'$.
Increments.  $E|f(x + h) - f(x)|^2 = k(x + h, x + h) - 2k(x, x + h) + k(x, x)$, which is $2(k(0) - k(h))$ for
             a stationary kernel. Paths are mean-square continuous at $x$ if it tends to zero with $h$.
Orders.      With the $p$-th difference, $E|\Delta_h^p f|^2$ falls as $h^{2p}$ if and only if $f$ has $p$
             mean-square derivatives (so $k$ has $2p$ at the diagonal), and more slowly if not: for a Matern
             kernel as $h^{2\nu}$.
Cost.        A few evaluations.
References.  Adler (1981) section 2.2; Stein (1999) section 2.4; Rasmussen and Williams (2006) section 4.1.1.
"""

import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count
from tractable.core.module import Module, field
from tractable.core.types import ArrayLike, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.kernels.base import Kernel

__all__ = ["Smoothness", "smoothness_report", "trait_violations"]


class Smoothness(Module):
    """Mean-square continuity and derivatives of the paths at one point.

    `exponents[p - 1]` is the power of the step with which the variance of the `p`-th difference falls;
    `measured` is the number of orders at which it is `2p`, `declared` what the kernel says of itself.
    """

    continuous: bool = field(static=True)
    measured: int = field(static=True)
    declared: float = field(static=True)
    exponents: tuple[float, ...] = field(static=True)

    @property
    def verdict(self) -> Verdict:
        """How smooth the paths are, and whether the kernel says the same of itself."""
        orders = len(self.exponents)
        count = f"at least {orders}" if self.measured == orders else str(self.measured)
        words = "Mean-square continuous" if self.continuous else "Not mean-square continuous"
        said = f"{words}; {count} mean-square derivatives (declared {self.declared:g})."
        return Verdict(self.measured == min(orders, self.declared), said, {"measured": self.measured})


def trait_violations(kernel: Kernel, X: ArrayLike, key: Key) -> dict[str, float]:
    """By how much the kernel changes under what would leave each class unchanged: near zero for a member.

    Stationary: both points move by one vector. Isotropic: they also turn. Dot-product: they change with
    their inner product kept. The rows of `X` and their reversed order are the pairs.
    """
    x = np.asarray(kernel._rows("X", X))
    y = x[::-1]
    move, turn, aside = jr.split(key, 3)
    dim = x.shape[1]
    shift = np.asarray(jr.normal(move, (1, dim)))
    rotation = np.linalg.qr(np.asarray(jr.normal(turn, (dim, dim))))[0]
    noise = np.asarray(jr.normal(aside, x.shape))
    sizes = (x**2).sum(1, keepdims=True)
    noise = noise - x * (x * noise).sum(1, keepdims=True) / np.where(sizes > 0, sizes, 1.0)
    change = {
        "stationary": (x + shift, y + shift),
        "isotropic": ((x + shift) @ rotation, (y + shift) @ rotation),
        "dot_product": (2 * x, y / 2 + noise),
    }
    before = np.diag(np.asarray(kernel.gram(x, y)))
    return {
        name: float(np.abs(np.diag(np.asarray(kernel.gram(a, b))) - before).max())
        for name, (a, b) in change.items()
    }


def smoothness_report(
    kernel: Kernel, x: ArrayLike = 1.0, *, step: float = 0.02, orders: int = 3
) -> Smoothness:
    """How fast differences of the paths vanish at the point `x` as a step along the first column is halved.

    A measurement: `step` should be small against the length scale and large against rounding; orders that
    are neither kept nor clearly lost (a Matern kernel with a whole `nu`) come out near a half.
    """
    point = as_float("x", x)
    check(point.ndim <= 1, "x", "one point: a number or a vector", f"shape {point.shape}")
    direction = np.zeros(point.shape)
    direction[(0,) * point.ndim] = 1.0
    exponents = []
    for order in range(1, check_count("orders", orders) + 1):
        wide, narrow = (
            float(_difference_variance(kernel, point, jnp.asarray(scale * direction), order))
            for scale in (step, step / 2)
        )
        exponents.append(math.log2(wide / narrow) if wide > 0 and narrow > 0 else math.inf)
    kept = [power > 2 * order - 0.3 for order, power in enumerate(exponents, start=1)]
    measured = kept.index(False) if False in kept else len(kept)
    return Smoothness(exponents[0] > 0.05, measured, float(kernel.traits.derivatives), tuple(exponents))


def _difference_variance(kernel: Kernel, x, h, order: int) -> Scalar:
    """The variance of the `order`-th difference of the paths at `x` with step `h`."""
    steps = np.arange(order + 1.0)
    signs = np.array([(-1.0) ** (order - i) * math.comb(order, i) for i in range(order + 1)])
    points = jnp.reshape(x, (1, -1)) + steps[:, None] * jnp.reshape(h, (1, -1))
    return jnp.asarray(signs) @ kernel.gram(points) @ signs
