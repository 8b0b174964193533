r"""Convolutions: causal ones along a sequence, by windows or by transforms, and those of images.

Causal.      $y_t = \sum_{s=0}^{k-1} K_s\,x_{t-ds} + b$ with a matrix $K_s$ for each lag and zeros before the
             beginning: an output depends on no later input. With dilation $d$ it looks back $d(k - 1)$ steps.
Transforms.  A kernel as long as the sequence costs $O(n \log n)$ for each pair of channels by
             `core.fourier.causal_convolution`; the kernel $K_s = C A^s B$ of a linear state-space model gives
             the outputs of its recurrence.
Images.      `equinox.nn.Conv2d` with initial weights by name.
Cost.        $n k$ products of a matrix and a vector by windows.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check, check_count, check_option
from tractable.core.fourier import causal_convolution
from tractable.core.keys import takes_key
from tractable.core.types import Array, ArrayLike, Float, Key
from tractable.neural.layers import draw_weights

__all__ = ["CausalConvolution", "image_convolution"]


class CausalConvolution(eqx.Module):
    """A layer over sequences of shape (length, channels).

    >>> layer = CausalConvolution(2, 3, 4, key=jr.key(0))
    >>> layer(jnp.ones((10, 2))).shape
    (10, 3)
    """

    kernel: Float[Array, "lags outputs inputs"]
    bias: Float[Array, " outputs"]
    dilation: int = eqx.field(static=True)
    method: str = eqx.field(static=True)

    @takes_key
    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        num_lags: int,
        *,
        key: Key,
        dilation: int = 1,
        method: str = "windows",
        initial: str = "he",
        dtype: Any = jnp.float32,
    ):
        sizes = (("num_outputs", num_outputs), ("num_inputs", num_inputs), ("num_lags", num_lags))
        shape = tuple(check_count(name, size) for name, size in sizes)
        check_option("method", method, ("windows", "transforms"))
        self.kernel = jnp.moveaxis(draw_weights(key, (shape,), initial, dtype)[0], 2, 0)
        self.bias = jnp.zeros(num_outputs, dtype)
        self.dilation, self.method = check_count("dilation", dilation), method

    @property
    def reach(self) -> int:
        """How many steps back an output looks."""
        return self.dilation * (len(self.kernel) - 1)

    def __call__(self, x: ArrayLike) -> Array:
        x = jnp.asarray(x, self.kernel.dtype)
        channels = self.kernel.shape[2]
        fits = x.ndim == 2 and x.shape[1] == channels and len(x) > 0
        check(fits, "x", f"of shape (length, {channels}), and not empty", f"shape {x.shape}")
        found = self._by_transforms(x) if self.method == "transforms" else self._by_windows(x)
        return found + self.bias[None]

    def _by_windows(self, x: Array) -> Array:
        out = jax.lax.conv_general_dilated(
            x[None], jnp.flip(self.kernel, 0), (1,), [(self.reach, 0)], rhs_dilation=(self.dilation,),
            dimension_numbers=("NWC", "WOI", "NWC"),
        )  # fmt: skip
        return out[0]

    def _by_transforms(self, x: Array) -> Array:
        lags = jnp.arange(len(self.kernel)) * self.dilation
        blank = jnp.zeros((len(x), *self.kernel.shape[1:]), self.kernel.dtype)
        kernel = jnp.moveaxis(blank.at[lags].set(self.kernel, mode="drop"), 0, -1)
        return causal_convolution(kernel, x.T[None]).sum(1).T


@takes_key
def image_convolution(
    num_inputs: int, num_outputs: int, size: int, *, key: Key, stride: int = 1, padding: int | str = 0,
    initial: str = "he", dtype: Any = jnp.float32,
) -> eqx.nn.Conv2d:  # fmt: skip
    """A layer over images of shape (channels, height, width), with `size` by `size` windows.

    >>> image_convolution(1, 4, 3, key=jr.key(0), padding=1)(jnp.ones((1, 8, 8), "float32")).shape
    (4, 8, 8)
    """
    blank = eqx.filter_eval_shape(
        eqx.nn.Conv2d, num_inputs, num_outputs, size, stride, padding, key=jr.key(0), dtype=dtype
    )
    weight = draw_weights(key, (blank.weight.shape,), initial, dtype)[0]
    bias = jnp.zeros(blank.bias.shape, dtype)
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), blank, (weight, bias))
