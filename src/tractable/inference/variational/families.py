r"""Variational families by name: where a climb over a flat real vector starts.

Names.       `mean_field`, `full_rank`, `low_rank` (Gaussian), `coupling`, `spline`, `autoregressive` (flows).
             `Structured` has a local and a global part and is built by hand.
Cost.        That of the family.
"""

from typing import Any

import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import as_float, check, check_count, check_option
from tractable.core.types import ArrayLike, Key
from tractable.inference.variational.flow_families import Flow, flow_map
from tractable.inference.variational.gaussian_families import (
    FullRank,
    GaussianFamily,
    LowRank,
    MeanField,
    Structured,
    VariationalFamily,
)

__all__ = [
    "FAMILIES", "Flow", "FullRank", "GaussianFamily", "LowRank", "MeanField", "Structured",
    "VariationalFamily", "flow_map", "make_family",
]  # fmt: skip

FAMILIES = ("mean_field", "full_rank", "low_rank", "coupling", "spline", "autoregressive")


def make_family(
    name: str, loc: ArrayLike, *, scale: float = 0.1, rank: int = 2, layers: int = 4, key: Key | None = None
) -> VariationalFamily:
    """The named family around `loc` with standard deviation `scale`: where an optimiser starts.

    The names are those of `FAMILIES`. `rank` is that of "low_rank"; `layers` and `key` are for the flows
    ("coupling" and "autoregressive" with affine maps, "spline" with couplings of splines).

    >>> make_family("mean_field", [1.0, 2.0]).mean.tolist()
    [1.0, 2.0]
    """
    check_option("family", name, FAMILIES)
    loc = as_float("loc", loc)
    check(loc.ndim == 1 and loc.size > 0, "loc", "a vector with at least one entry", f"shape {loc.shape}")
    spread = jnp.full_like(loc, scale)
    if name == "mean_field":
        return MeanField(loc, spread)
    if name == "full_rank":
        return FullRank(loc, scale * jnp.eye(loc.size, dtype=loc.dtype))
    check(key is not None, "key", f'given for the family "{name}"', key)
    noise: Any = key
    if name == "low_rank":
        rank = check_count("rank", rank, 1, loc.size)
        # Zero columns would be a saddle: their gradient vanishes there.
        return LowRank(loc, spread, 0.1 * scale * jr.normal(noise, (loc.size, rank), loc.dtype))
    return Flow(loc, spread, flow_map(name, noise, loc.size, layers), name != "autoregressive")
