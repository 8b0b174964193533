"""The six densities in JAX: `DENSITIES[name](x, data)` with `x` a dict of parameters on their own scales.

Additive constants are left out where they do not depend on the parameters.
"""

from typing import Any

import jax
import jax.numpy as jnp


def eight_schools(x: dict[str, Any], data: dict[str, Any]) -> jax.Array:
    """A normal mean (sd 5), a half-Cauchy spread (scale 5), standard normal offsets."""
    effects = x["mu"] + x["tau"] * x["z"]
    prior = -0.5 * (x["mu"] / 5) ** 2 - jnp.log1p((x["tau"] / 5) ** 2) - 0.5 * x["z"] @ x["z"]
    return prior - 0.5 * (((data["effect"] - effects) / data["error"]) ** 2).sum()


def logistic(x: dict[str, Any], data: dict[str, Any]) -> jax.Array:
    """Standard normal weights, Bernoulli labels."""
    logits = data["features"] @ x["w"]
    return (data["labels"] * logits - jax.nn.softplus(logits)).sum() - 0.5 * x["w"] @ x["w"]


def radon(x: dict[str, Any], data: dict[str, Any]) -> jax.Array:
    """Wide normal mean and slope (sd 10), half-normal scales, standard normal offsets."""
    level = (x["mu"] + x["tau"] * x["z"])[data["group"]] + x["slope"] * data["floor"]
    residual = (data["level"] - level) / x["sigma"]
    prior = -0.5 * (x["mu"] ** 2 + x["slope"] ** 2) / 100 - 0.5 * (x["tau"] ** 2 + x["sigma"] ** 2)
    return prior - 0.5 * x["z"] @ x["z"] - 0.5 * residual @ residual - residual.size * jnp.log(x["sigma"])


def gaussian(x: dict[str, Any], data: dict[str, Any]) -> jax.Array:
    """A quadratic form."""
    return -0.5 * x["x"] @ (data["precision"] @ x["x"])


def funnel(x: dict[str, Any], data: dict[str, Any]) -> jax.Array:
    """A normal log-variance (sd 3) and nine normals with that variance."""
    return -0.5 * (x["v"] / 3) ** 2 - 0.5 * jnp.exp(-x["v"]) * (x["x"] @ x["x"]) - 4.5 * x["v"]


def horseshoe(x: dict[str, Any], data: dict[str, Any]) -> jax.Array:
    """Half-Cauchy local and global scales, an inverse-gamma slab, half-normal noise."""
    scale = 5 / 195 / 10 * x["sigma"] * x["shrinkage"]
    local = jnp.sqrt(x["slab"]) * x["local"] / jnp.sqrt(x["slab"] + (scale * x["local"]) ** 2)
    residual = (data["response"] - x["intercept"] - data["features"] @ (scale * local * x["z"])) / x["sigma"]
    prior = -jnp.log1p(x["local"] ** 2).sum() - jnp.log1p(x["shrinkage"] ** 2)
    prior += -3 * jnp.log(x["slab"]) - 8 / x["slab"] - 0.5 * (x["sigma"] / 2) ** 2
    prior += -0.5 * (x["intercept"] / 5) ** 2 - 0.5 * x["z"] @ x["z"]
    return prior - 0.5 * residual @ residual - residual.size * jnp.log(x["sigma"])


DENSITIES = {f.__name__: f for f in (eight_schools, logistic, radon, gaussian, funnel, horseshoe)}
