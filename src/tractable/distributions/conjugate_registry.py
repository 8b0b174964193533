r"""Conjugacy: the posterior adds statistics to the prior's natural parameters; one mechanism for every pair.

Identity.    With a prior $p(\theta) = h(\theta) \exp\{\langle \eta, t(\theta)\rangle - A(\eta)\}$ and a
             likelihood $\log p(x \mid \theta) = \langle s(x), t(\theta) \rangle + b(x)$, the posterior of
             rows $x_n$ of weights $w_n$ has $\eta' = \eta + \sum_n w_n s(x_n)$, and the log-evidence is
             $A(\eta') - A(\eta) + \sum_n w_n b(x_n)$.
Cost.        $O(n)$; sequential and batch updates are the same sum.
References.  Diaconis and Ylvisaker (1979); Bernardo and Smith (1994) section 5.2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check
from tractable.core.module import field, plates
from tractable.core.support import Support
from tractable.core.types import Array, ArrayLike, Key, Scalar, Shape
from tractable.distributions.base import Distribution, Univariate
from tractable.distributions.expfam import Natural, check_rows, per_unit, present_rows, row_weights, weigh

__all__ = [
    "ConjugatePair", "Predictive", "add_statistics", "find_pair", "known_pairs", "log_evidence", "posterior",
    "predictive", "register_conjugate",
]  # fmt: skip

_PAIRS: dict[tuple[type, type], "ConjugatePair"] = {}


@dataclass(frozen=True)
class ConjugatePair:
    r"""What one pair states: $s(x)$ and $b(x)$ of the likelihood, and the likelihood at a given $\theta$.

    `member(model, theta)` is the likelihood with its unknown parameter set; `model` holds what is known, and
    is None if nothing is. `fold`, `log_normaliser` and `support` replace the general rule where it would lose
    digits or does not hold. With `anchor`, a function of the posterior that returns a $\theta$, the evidence
    is $p(x \mid \theta)\,p(\theta) / p(\theta \mid x)$ there.
    """

    prior: type
    likelihood: type
    contribution: Callable[[Any, Array], tuple[Natural, Array]]
    member: Callable[[Any, Array], Any]
    known: tuple[str, ...] = ()
    predict: Callable[[Any, Any], Any] | None = None
    fold: Callable[[Any, Any, Array, Array], Any] | None = None
    log_normaliser: Callable[[Any], Array] | None = None
    anchor: Callable[[Any], Array] | None = None
    support: Support | None = None


def register_conjugate(
    prior: type, likelihood: type, member: Callable[[Any, Array], Any], **options: Any
) -> Callable[[Callable], Callable]:
    r"""Enter a pair: decorates the function of `(model, x)` that returns $s(x)$, a tuple, and $b(x)$.

    `options` are the other fields of `ConjugatePair`.
    """

    def enter(contribution: Callable) -> Callable:
        _PAIRS[prior, likelihood] = ConjugatePair(prior, likelihood, contribution, member, **options)
        return contribution

    return enter


def known_pairs() -> tuple[tuple[str, str], ...]:
    """The names of all registered pairs: prior and likelihood."""
    return tuple((prior.__name__, likelihood.__name__) for prior, likelihood in _PAIRS)


def find_pair(prior: Distribution, likelihood: Any) -> ConjugatePair:
    """The pair for a prior and a likelihood (a class or a member); else an error that lists the pairs."""
    kind = likelihood if isinstance(likelihood, type) else type(likelihood)
    pair = _PAIRS.get((type(prior), kind))
    if pair is None:
        pairs = "; ".join(f"{a} with {b}" for a, b in known_pairs())
        got = f"{type(prior).__name__} with {kind.__name__}"
        raise TypeError(f"`prior` must be conjugate to `likelihood`; got {got}. Known pairs: {pairs}.")
    return pair


def posterior(prior: Distribution, likelihood: Any, data: ArrayLike, weights: ArrayLike | None = None) -> Any:
    r"""$p(\theta \mid x_1, \dots, x_n)$: the prior with the statistics of the rows added.

    `likelihood` is the class, or a member of it that holds known parameters (the rest of it is ignored):
    `Normal(0.0, 2.0)` with a `Normal` prior says that the scale is 2 and the mean unknown. Rows come first in
    `data`; a weight of two is the row twice; no rows give back the prior.

    >>> from tractable.distributions.conjugate import Bernoulli, Beta
    >>> after = posterior(Beta(2.0, 2.0), Bernoulli, jnp.array([1, 1, 1, 0]))
    >>> float(after.a), float(after.b)
    (5.0, 3.0)
    """
    pair, model, rows, weights = _prepare(prior, likelihood, data, weights)
    return _posterior(pair, prior, model, rows, weights)


def log_evidence(
    prior: Distribution, likelihood: Any, data: ArrayLike, weights: ArrayLike | None = None
) -> Scalar:
    r"""$\log \int p(x_1, \dots, x_n \mid \theta)\, p(\theta)\, d\theta$ of the rows in their order."""
    pair, model, rows, weights = _prepare(prior, likelihood, data, weights)
    return _log_evidence(pair, prior, model, rows, weights)


def predictive(prior: Distribution, likelihood: Any) -> Any:
    r"""$p(x) = \int p(x \mid \theta)\, p(\theta)\, d\theta$, a distribution; `prior` may be a posterior."""
    pair = find_pair(prior, likelihood)
    model = _model(pair, prior, likelihood)
    return Predictive(prior, model) if pair.predict is None else pair.predict(prior, model)


def add_statistics(prior: Any, sums: Sequence[ArrayLike]) -> Any:
    r"""The member with natural parameters $\eta$ + `sums`, for each unit: a conjugate update from statistics.

    It is the whole of an update: with expected counts in place of counts, it is the M-step of many models.
    """

    def unit(member, added):
        return member.from_natural(jax.tree.map(jnp.add, member.natural, added))

    return per_unit((prior,), unit, (tuple(as_float("sums", total) for total in sums),))


class Predictive(Distribution):
    r"""The likelihood averaged over a prior, where it has no name of its own.

    The density is the evidence of one point; a draw is a draw of $\theta$, then of $x$.
    """

    prior: Any = field()
    model: Any = field()

    @property
    def unit_shape(self) -> Shape:
        return self.model.shape

    @property
    def support(self) -> Support:
        pair = find_pair(self.prior, self.model)
        return self.model.support if pair.support is None else pair.support

    def _log_prob(self, x):
        return _log_evidence(find_pair(self.prior, self.model), self.prior, self.model, x[None], jnp.ones(1))

    def _sample(self, key: Key, n: int) -> Array:
        pair = find_pair(self.prior, self.model)
        key_theta, key_x = jax.random.split(key)
        thetas = self.prior.sample(key_theta, (n,))
        keys = jax.random.split(key_x, n)
        return jax.vmap(lambda theta, key: pair.member(self.model, theta).sample(key))(thetas, keys)


@partial(jax.jit, static_argnums=0)
def _posterior(pair: ConjugatePair, prior: Any, model: Any, rows: Array, weights: Array) -> Any:
    if pair.fold is not None:
        return pair.fold(prior, model, rows, weights)
    sums, _ = jax.vmap(partial(pair.contribution, model))(rows)
    return add_statistics(prior, jax.tree.map(partial(weigh, weights), sums))


@partial(jax.jit, static_argnums=0)
def _log_evidence(pair: ConjugatePair, prior: Any, model: Any, rows: Array, weights: Array) -> Scalar:
    after = _posterior(pair, prior, model, rows, weights)
    if pair.anchor is not None:
        theta = pair.anchor(after)
        likelihood = weigh(weights, pair.member(model, theta).log_prob(rows))
        return likelihood + prior.log_prob(theta) - after.log_prob(theta)
    _, bases = jax.vmap(partial(pair.contribution, model))(rows)
    ratio = _log_normaliser(pair, after) - _log_normaliser(pair, prior)
    return (ratio + weigh(weights, bases)).sum()


def _log_normaliser(pair: ConjugatePair, member: Any) -> Array:
    rule = pair.log_normaliser or (lambda unit: unit.log_normaliser(unit.natural))
    return per_unit((member,), rule)


def _prepare(
    prior: Distribution, likelihood: Any, data: ArrayLike, weights: ArrayLike | None
) -> tuple[ConjugatePair, Any, Array, Array]:
    pair = find_pair(prior, likelihood)
    model = _model(pair, prior, likelihood)
    rows = as_float("data", data)
    shape = model.shape
    must = f"rows, of shape (n, {', '.join(map(str, shape))})" if shape else "one number per row, shape (n,)"
    check(rows.ndim > 0 and rows.shape[1:] == shape, "data", must, f"shape {rows.shape}", "Rows come first.")
    weights = row_weights(rows, weights)
    support = model.support if pair.support is None else pair.support
    check_rows("data", support, rows, weights)
    return pair, model, present_rows(support, rows, weights), weights


def _model(pair: ConjugatePair, prior: Distribution, likelihood: Any) -> Any:
    """The member of the likelihood that carries shape, support and known parameters."""
    one = isinstance(prior, Univariate) or plates(prior) == ()
    check(one, "prior", "one unit without leading axes", f"leading axes {plates(prior)}", "Use `jax.vmap`.")
    held = None if isinstance(likelihood, type) else likelihood
    name, known = pair.likelihood.__name__, ", ".join(pair.known)
    must = f"a member of {name} that holds its known {known}"
    check(held is not None or not pair.known, "likelihood", must, f"the class {name}")
    model = pair.member(held, jnp.asarray(prior.support.interior(jnp.zeros(prior.shape))))
    fits = model.shape == prior.shape or not isinstance(prior, Univariate)
    check(
        fits, "likelihood", f"of shape {prior.shape}, one for each entry of `prior`", f"shape {model.shape}"
    )
    return model
