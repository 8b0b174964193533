r"""Residual blocks, and the residual network as Euler's rule.

Block.       $h^+ = h + \Delta f(h)$: the identity where $f = 0$, with Jacobian $I + \Delta f'(h)$, so that
             gradients pass through depth without a product of small matrices.
Euler.       $K$ blocks are $K$ steps of Euler's rule for $\dot h = f_k(h)$, and $h_K = h_0 + \Delta \sum_k
             f_k(h_k)$; with one field for all blocks they converge to the neural ODE as $K \to \infty$.
Cost.        That of the branches.
References.  He et al. (2016); E (2017); Haber and Ruthotto (2018).
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax

from tractable.core.checks import check
from tractable.core.types import Array, Key

__all__ = ["ResidualBlock", "ResidualNetwork"]


class ResidualBlock(eqx.Module):
    r"""$h + \Delta f(h)$ for a branch $f$ whose output has the shape of its input.

    >>> ResidualBlock(lambda h: h, 0.1)(jax.numpy.ones(2)).tolist()
    [1.1, 1.1]
    """

    branch: Callable[..., Array]
    step: float = eqx.field(static=True, default=1.0)

    def __call__(self, h: Array, *, key: Key | None = None) -> Array:
        moved = self.branch(h) if key is None else self.branch(h, key=key)
        must = f"a function that keeps the shape of its input, {h.shape}"
        check(moved.shape == h.shape, "branch", must, f"shape {moved.shape}", "Project one of the two.")
        return h + self.step * moved


class ResidualNetwork(eqx.Module):
    """Residual blocks, one after the other.

    >>> grown = ResidualNetwork([lambda h: h] * 10, step=0.1)(jax.numpy.ones(1))
    >>> round(float(grown[0]), 10)
    2.5937424601
    """

    blocks: tuple[ResidualBlock, ...]

    def __init__(self, branches: Sequence[Callable[..., Array]], step: float | int = 1.0):
        check(len(branches) > 0, "branches", "at least one function", "none")
        self.blocks = tuple(ResidualBlock(branch, float(step)) for branch in branches)

    def __call__(self, h: Array, *, key: Key | None = None) -> Array:
        keys: Any = [None] * len(self.blocks) if key is None else jax.random.split(key, len(self.blocks))
        for block, one in zip(self.blocks, keys):
            h = block(h, key=one)
        return h
