r"""Models stated elsewhere, ready for `mcmc`: NumPyro models, and parameters declared as in Stan.

Contract.    `mcmc` takes any function of a pytree that returns a log-density, so most models need nothing of
             this. An adapter gives what such a model lacks: a log-density on the parameters' own scales, a
             start inside their supports, and the supports.
Volume.      The log-determinants are added by the driver. They follow the same volumes as in Stan and in
             NumPyro: the simplex by its first $k - 1$ coordinates, covariances by their lower triangle.
Cost.        One pass through the model at the start; then that of the model itself.
References.  Phan, Pradhan and Jankowiak (2019), "Composable effects for flexible and accelerated
             probabilistic programming in NumPyro"; Stan Reference Manual, chapter on constraints.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tractable.core import support as sets
from tractable.core.checks import check, check_count
from tractable.core.module import Module, field
from tractable.core.support import Support
from tractable.core.types import Scalar

__all__ = ["Adapted", "NumpyroDensity", "from_numpyro", "from_stan"]


class NumpyroDensity(Module):
    """The log joint density of a NumPyro model, on the parameters' own scales.

    Its arguments are leaves: new data of the same shapes use the same compiled program.
    """

    args: tuple
    kwargs: dict[str, Any]
    model: Callable[..., Any] = field(static=True)

    def __call__(self, x: Mapping[str, Any]) -> Scalar:
        """The log-density of latent sites `x` together with everything observed."""
        from numpyro.infer.util import log_density  # pyright: ignore[reportMissingImports]

        return jnp.asarray(log_density(self.model, self.args, self.kwargs, dict(x))[0])

    def deterministic(self, x: Mapping[str, Any]) -> dict[str, Any]:
        """The deterministic sites at `x`."""
        from numpyro import handlers  # pyright: ignore[reportMissingImports]

        fixed = handlers.substitute(handlers.seed(self.model, rng_seed=0), data=dict(x))
        sites = handlers.trace(fixed).get_trace(*self.args, **self.kwargs)
        return {name: site["value"] for name, site in sites.items() if site["type"] == "deterministic"}


class Adapted(NamedTuple):
    """What `mcmc` needs to know of a model."""

    log_density: NumpyroDensity
    start: dict[str, Any]
    supports: dict[str, Support]


def from_numpyro(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Adapted:
    """The log-density, a start and the supports of a NumPyro model called with these arguments.

    `log_density, start, supports = from_numpyro(model, data)`, then `mcmc(log_density, start, NUTS(),
    supports=supports, key=key)`. Discrete latent sites have to be summed out first; deterministic sites are
    `post.map(log_density.deterministic)`.
    """
    start, supports = {}, {}
    sites, others = (_sites(model, seed, args, kwargs) for seed in (0, 1))
    for name, site in sites.items():
        if site["type"] == "plate":
            _check_plate(name, site)
            continue
        check(site["type"] != "param", name, "sampled", "a `param` site", "Give it a prior, or a value.")
        if site["type"] != "sample" or site["is_observed"]:
            continue
        value, support = np.asarray(site["value"]), _support_of(name, site)
        _check_fixed(name, support, _support_of(name, others[name]))
        start[name], supports[name] = support.interior(np.zeros(value.shape, value.dtype)), support
    check(len(start) > 0, "model", "one with latent sites", "none")
    return Adapted(NumpyroDensity(args, kwargs, model), start, supports)


def from_stan(
    parameters: Mapping[str, str | Mapping[str, Any]],
) -> tuple[dict[str, Any], dict[str, Support]]:
    """A start and the supports of parameters declared as in Stan, in its words or in a dict.

    `{"lower": a, "upper": b}`, `{"simplex": k}`, `{"ordered": k}`, `{"positive_ordered": k}`,
    `{"unit_vector": k}`, `{"cov_matrix": k}`, `{"corr_matrix": k}`, `{"cholesky_factor_cov": k}`,
    `{"cholesky_factor_corr": k}`; `"shape"` holds the axes of an array of them.

    >>> start, supports = from_stan({"sigma": {"lower": 0}, "theta": "simplex[4]", "beta": "vector[2]"})
    >>> [supports[name].words for name in ("sigma", "beta")]
    ['positive and finite', 'finite']
    >>> start["theta"].tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    start, supports = {}, {}
    for name, declared in parameters.items():
        words = _parsed(name, declared) if isinstance(declared, str) else dict(declared)
        supports[name], shape = _stan_support(name, words)
        start[name] = supports[name].interior(np.zeros(shape))
    return start, supports


# Stan ------------------------------------------------------------------------------------------------------

_STAN = {
    "simplex": sets.simplex,
    "ordered": sets.ordered,
    "positive_ordered": sets.positive_ordered,
    "unit_vector": sets.sphere,
    "cov_matrix": sets.psd,
    "corr_matrix": sets.correlation,
    "cholesky_factor_cov": sets.lower_cholesky,
    "cholesky_factor_corr": sets.correlation_cholesky,
}
_DECLARATION = re.compile(r"(?:array\[([\d,\s]+)\]\s*)?(\w+)(?:<([^>]*)>)?(?:\[([\d,\s]+)\])?")


def _stan_support(name: str, words: Mapping[str, Any]) -> tuple[Support, tuple[int, ...]]:
    """The support and the shape of one parameter."""
    known = ("lower", "upper", "shape", *_STAN)
    for word in words:
        check(word in known, name, f"declared with words of {', '.join(known)}", repr(word))
    sizes = words.get("shape", ())
    sizes = [sizes] if np.ndim(sizes) == 0 else list(sizes)
    shape = tuple(check_count(f"shape of {name}", size) for size in sizes)
    special = [word for word in words if word in _STAN]
    bounds = [word for word in ("lower", "upper") if word in words]
    check(len(special) + bool(bounds) <= 1, name, "declared with one constraint", [*special, *bounds])
    if not special:
        return _between(name, words.get("lower", -np.inf), words.get("upper", np.inf)), shape
    support, size = _STAN[special[0]], check_count(f"size of {name}", words[special[0]])
    return support, shape + (size,) * support.ndim


def _parsed(name: str, declared: str) -> dict[str, Any]:
    """`vector<lower=0>[3]` as a dict."""
    found = _DECLARATION.fullmatch(declared.strip())
    example = "a declaration such as 'real<lower=0>', 'simplex[3]' or 'array[2] vector[3]'"
    check(found is not None, name, example, repr(declared))
    assert found is not None
    outer, kind, inside, inner = found.groups()
    axes, sizes = ([int(n) for n in (text or "").split(",") if n.strip()] for text in (outer, inner))
    bounds = [part.split("=") for part in (inside or "").split(",") if part.strip()]
    if kind in _STAN:
        square = len(sizes) in (1, 2) and len(set(sizes)) == 1
        check(square and not bounds, name, f"`{kind}[k]` without bounds", repr(declared))
        return {kind: sizes[0], "shape": axes}
    axes_of = {"real": 0, "vector": 1, "row_vector": 1, "matrix": 2}
    check(kind in axes_of, name, f"of a type in {', '.join((*axes_of, *_STAN))}", repr(kind))
    check(len(sizes) == axes_of[kind], name, f"`{kind}` with {axes_of[kind]} sizes", repr(declared))
    scales = ("offset", "multiplier")  # they change how Stan moves, not what is allowed
    limits = {word.strip(): float(limit) for word, limit in bounds if word.strip() not in scales}
    return {**limits, "shape": [*axes, *sizes]}


def _between(name: str, low: Any, high: Any) -> Support:
    """The numbers between two ends, by the simplest support that says so."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    check(bool((low < high).all()), name, "declared with `lower` below `upper`", f"{low} and {high}")
    if (low == -np.inf).all() and (high == np.inf).all():
        return sets.real
    if (low == 0).all() and (high == np.inf).all():
        return sets.positive
    ends = (float(end) if end.ndim == 0 else jnp.asarray(end) for end in (low, high))
    return sets.bounded(*ends)


# NumPyro ---------------------------------------------------------------------------------------------------

_NUMPYRO = {
    "real": sets.real,
    "real_vector": sets.real,
    "real_matrix": sets.real,
    "positive": sets.positive,
    "softplus_positive": sets.positive,
    "nonnegative": sets.nonnegative,
    "unit_interval": sets.unit_interval,
    "circular": sets.bounded(-np.pi, np.pi),
    "simplex": sets.simplex,
    "ordered_vector": sets.ordered,
    "positive_ordered_vector": sets.positive_ordered,
    "sphere": sets.sphere,
    "positive_definite": sets.psd,
    "positive_semidefinite": sets.psd,
    "lower_cholesky": sets.lower_cholesky,
    "softplus_lower_cholesky": sets.lower_cholesky,
    "corr_cholesky": sets.correlation_cholesky,
    "corr_matrix": sets.correlation,
}


def _sites(model: Callable, seed: int, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The sites of one pass through the model, at free numbers that differ from seed to seed."""
    from numpyro import handlers  # pyright: ignore[reportMissingImports]
    from numpyro.infer import init_to_uniform  # pyright: ignore[reportMissingImports]

    begun = handlers.substitute(handlers.seed(model, rng_seed=seed), substitute_fn=init_to_uniform(radius=1))
    return handlers.trace(begun).get_trace(*args, **kwargs)


def _support_of(name: str, site: dict[str, Any]) -> Support:
    """The support of one latent site."""
    from numpyro.distributions import constraints  # pyright: ignore[reportMissingImports]

    constraint, shape = site["fn"].support, np.shape(site["value"])
    while isinstance(constraint, type(constraints.independent(constraints.real, 0))):
        constraint = constraint.base_constraint
    fix = "Sum it out, or sample it with Gibbs."
    check(not constraint.is_discrete, name, "continuous", f"a site that is {constraint}", fix, TypeError)
    for word, support in _NUMPYRO.items():
        if constraint is getattr(constraints, word, None):
            return support
    ends = getattr(constraint, "lower_bound", -np.inf), getattr(constraint, "upper_bound", np.inf)
    known = hasattr(constraint, "lower_bound") or hasattr(constraint, "upper_bound")
    check(known, name, f"in a support of {', '.join(_NUMPYRO)}, or an interval", repr(constraint))
    low, high = (end if np.ndim(end) == 0 else np.broadcast_to(end, shape) for end in ends)
    return _between(name, low, high)


def _check_plate(name: str, site: dict[str, Any]) -> None:
    size, used = site["args"]
    fix = "A chain needs the whole density: leave out `subsample_size`."
    check(used is None or size == used, name, "a plate over all its rows", f"{used} of {size}", fix)


def _check_fixed(name: str, support: Support, other: Support) -> None:
    same = type(support) is type(other) and all(
        np.array_equal(getattr(support, end, 0), getattr(other, end, 0)) for end in ("low", "high")
    )
    fix = "State it on a fixed support and scale it inside the model."
    must = "in a support that does not depend on other parameters"
    check(same, name, must, f"{support.words}, then {other.words}", fix)
