r"""The program that a formula states: one function for all families, with its data as arguments.

Model.       $\eta = o + \alpha + \sum_j b_j (x_j - \bar x_j)/s_j + \sum_f z_f^\top u_{f, g_f}$ over the
             factors $f$ of groups, with $u_{fg} = D_f L_f \epsilon_{fg}$, $\epsilon \sim N(0, I)$: standard
             deviations $D$, and the factor $L$ of a correlation. Coefficients are $\beta_j = b_j / s_j$, the
             intercept is $\alpha - \sum_j \beta_j \bar x_j$.
Elimination. Everything but $D$, $L$ and the unknowns of the family is normal, and $\eta$ is affine in it:
             in a gaussian family it is integrated. Effects are written by their noise, so that no spread
             near zero hurts.
Cost.        Linear in rows times columns.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.module import Module, field
from tractable.core.types import Array
from tractable.distributions.continuous import Normal
from tractable.distributions.matrix import LKJCholesky
from tractable.distributions.positive import HalfNormal
from tractable.programs.formula import Columns, Grouping
from tractable.programs.language import deterministic, plate, sample
from tractable.programs.regression_families import family_of

__all__ = ["EXPECTED", "Effects", "LinearProgram", "as_data", "named_draws", "pair_name"]

EXPECTED = "expected"  # the mean of the response, among predictions


_ZERO: Any = 0.0
_ONE: Any = 1.0


class Effects(Module):
    """What one factor moves: names of the effects, levels of the groups, and how many further groups."""

    factor: str = field(static=True)
    names: tuple[str, ...] = field(static=True)
    levels: tuple[str, ...] = field(static=True)
    correlated: bool = field(static=True)
    num_new: int = field(static=True, default=0)

    @staticmethod
    def of(group: Grouping, correlated: bool) -> "Effects":
        several = correlated and len(group.effects) > 1
        return Effects(group.factor, group.effects, group.levels, several, len(group.fresh))


class LinearProgram(Module):
    """The function under the model: two with the same words are the same program."""

    family: str = field(static=True)
    response: str = field(static=True)
    labels: tuple[str, ...] = field(static=True)
    has_intercept: bool = field(static=True)
    groups: tuple[Effects, ...] = ()
    predicting: bool = field(static=True, default=False)

    @property
    def __name__(self) -> str:
        return f"{self.family}_regression"

    def __call__(self, columns: Mapping[str, Any], priors: Mapping[str, Any], y: Any = None) -> None:
        eta = columns["offset"] + self._common(columns["values"], priors)
        for effects in self.groups:
            given = columns["groups"][effects.factor], priors["groups"][effects.factor]
            eta = eta + _grouped(effects, *given)
        family = family_of(self.family)
        own = {name: sample(name, law) for name, law in family.own(priors["scale"]).items()}
        law = family.law(eta, own, columns["trials"])
        if self.predicting:
            deterministic(EXPECTED, eta if self.family == "student" else law.mean)
        with plate("row" if "row" not in [each.factor for each in self.groups] else "rows", len(eta)):
            sample(self.response, law, obs=y)

    def _common(self, values: Array, priors: Mapping[str, Any]) -> Array:
        """The intercept and the coefficients of standardised columns."""
        found, shift = jnp.zeros(len(values)), jnp.zeros(())
        if self.labels:
            with plate("coefficient", self.labels):
                slopes = sample("slopes", Normal(_ZERO, priors["scale"]))
                rates = deterministic("coefficients", slopes / priors["sds"])
            found, shift = values @ slopes, priors["means"] @ rates
        if self.has_intercept:
            centred = sample("centred_intercept", Normal(priors["centre"], priors["scale"]))
            deterministic("Intercept", centred - shift)
            found = found + centred
        return found


def _grouped(effects: Effects, columns: Mapping[str, Any], sds: Array) -> Array:
    """What the groups of one factor add to the rows."""
    scale = columns["scale"]  # of each design column
    spreads = [sample(f"sd({name})", HalfNormal(sds[i])) for i, name in enumerate(effects.names)]
    size, lower = jnp.stack(spreads) * scale, None
    if effects.correlated:
        lower = sample(f"correlation({effects.factor})", LKJCholesky(len(effects.names), _ONE))
        for i, j in _pairs(effects):
            deterministic(pair_name(effects, i, j), lower[i] @ lower[j])
    values = _moved(effects, f"noise({effects.factor})", effects.levels, size, lower)
    with plate(effects.factor, effects.levels):
        for i, name in enumerate(effects.names):
            deterministic(name, values[:, i] / scale[i])
    if effects.num_new:
        others = tuple(f"new {i}" for i in range(effects.num_new))
        new = _moved(effects, f"noise(new {effects.factor})", others, size, lower)
        values = jnp.concatenate([values, new])
    return (values[columns["codes"]] * columns["values"]).sum(-1)


def _moved(effects: Effects, name: str, levels: tuple[str, ...], size: Array, lower: Array | None) -> Array:
    r"""$D L \epsilon$ of each group."""
    outer = effects.factor if levels == effects.levels else f"new {effects.factor}"
    with plate(outer, levels):
        if len(effects.names) == 1:
            return sample(name, Normal(_ZERO, _ONE))[:, None] * size[None]
        with plate(f"effect of {effects.factor}", effects.names):
            noise = sample(name, Normal(_ZERO, _ONE))
    return (noise if lower is None else noise @ lower.T) * size[None]


def pair_name(effects: Effects, i: int, j: int) -> str:
    """`cor(1, x|group)`."""
    ends = [effects.names[k].removesuffix(f"|{effects.factor}") for k in (i, j)]
    return f"cor({', '.join(ends)}|{effects.factor})"


def _pairs(effects: Effects) -> list[tuple[int, int]]:
    count = len(effects.names) if effects.correlated else 0
    return [(i, j) for j in range(count) for i in range(j)]


def as_data(columns: Columns, priors: Mapping[str, Any], trials: np.ndarray | None) -> dict[str, Any]:
    """The rows as the function takes them: standardised by the rows that were fitted."""
    groups = {
        each.factor: {"values": each.columns / scale, "codes": each.codes, "scale": scale}
        for each, scale in zip(columns.groups, priors["group_columns"])
    }
    values = (columns.values - priors["means"]) / priors["sds"]
    none = np.ones(columns.num_rows)
    return {
        "values": values, "offset": columns.offset, "groups": groups,
        "trials": none if trials is None else trials,
    }  # fmt: skip


def named_draws(program: LinearProgram, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The draws of every number under the name that it has in the formula."""
    found = {"Intercept": draws["Intercept"]} if program.has_intercept else {}
    found |= {label: draws["coefficients"][..., j] for j, label in enumerate(program.labels)}
    for effects in program.groups:
        names = [f"sd({name})" for name in effects.names]
        names += [pair_name(effects, i, j) for i, j in _pairs(effects)]
        found |= {name: draws[name] for name in names}
    found |= {name: draws[name] for name in family_of(program.family).own(jnp.ones(()))}
    for effects in program.groups:
        for name in effects.names:
            levels = enumerate(effects.levels)
            found |= {f"{name}[{level}]": draws[name][..., g] for g, level in levels}
    return found
