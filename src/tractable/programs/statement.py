r"""A program in mathematics: one line for each site, from what it computed.

Line.        `theta[school] ~ Normal(loc = mu, scale = tau)`; observed sites are marked, plates are listed
             with their sizes.
Cost.        One trace.
"""

from typing import Any

import jax

from tractable.core.module import HostResult, field
from tractable.programs.expressions import expressions
from tractable.programs.survey import Facts, Seen, survey
from tractable.programs.trace import Program

__all__ = ["Statement", "state"]


class Statement(HostResult):
    """The lines of a program; printed, they are the model."""

    lines: tuple[str, ...] = field(static=True)

    def __repr__(self) -> str:
        return "\n".join(self.lines)


def state(bound: Program) -> Statement:
    """The statement of a program with its arguments.

    >>> from tractable.distributions import Gamma, Poisson
    >>> from tractable.programs import model, plate, sample
    >>> @model
    ... def counts(exposure, y):
    ...     rate = sample("rate", Gamma(2.0, 1.0))
    ...     with plate("row", len(y)):
    ...         sample("y", Poisson(rate * exposure), obs=y)
    >>> state(counts.bind(exposure=[1.0, 2.0], y=[3, 4]))
    rate ~ Gamma(concentration = 2, rate = 1)
    y[row] ~ Poisson(rate = rate exposure), observed
    row: 2
    """
    facts = survey(bound)
    texts = dict(zip(facts.outputs, expressions(facts.closed, [*facts.latents, *_data_names(bound)])))
    lines = [_line(facts, site, texts) for site in facts.sites.values() if site.kind != "deterministic"]
    plates = dict.fromkeys(plate for site in facts.sites.values() for plate in site.plates)
    return Statement((*lines, *(f"{plate.name}: {plate.size}" for plate in plates)))


def _line(facts: Facts, site: Seen, texts: dict[tuple[str, str], str]) -> str:
    index = f"[{', '.join(plate.name for plate in site.plates)}]" if site.plates else ""
    if site.kind == "factor":
        return f"{site.name}{index}: factor exp({texts[site.name, 'log_probs']})"
    own = [
        (label, text) for (name, label), text in texts.items() if name == site.name and label != "log_probs"
    ]
    parameters = ", ".join(f"{label} = {text}" for label, text in own)
    law = site.family.__name__ if site.family is not None else site.kind
    kind = "" if site.kind == "latent" else f", {site.kind}"
    return f"{site.name}{index} ~ {law}({parameters}){kind}"


def _data_names(bound: Program) -> list[str]:
    """The names of the arrays among the arguments, in the order of `Program.divided`."""
    arrays, _ = bound.divided()
    found = jax.tree_util.tree_flatten_with_path(bound)[0]
    named = [(path, leaf) for path, leaf in found if any(leaf is array for array in arrays)]
    return [_name(path) for path, _ in named]


def _name(path: Any) -> str:
    keys = [getattr(key, "key", getattr(key, "idx", getattr(key, "name", ""))) for key in path]
    return str(keys[-1]) if isinstance(keys[-1], str) else f"arg{keys[-1]}"
