r"""Decoding: sequences from any model that goes on token by token, `step(state, token) -> (state, logits)`.

Model.       $p(x_1 \dots x_T \mid x_0) = \prod_t \mathrm{softmax}(\ell_t)_{x_t}$, up to `end` if one is
             named: behind it a sequence is over, its places are filled with `end` at no cost.
Greedy.      The most probable token each time; beam search keeps the `width` most probable beginnings, and is
             exact once `width` is the number of all of them. Neither need find the mode: greedy choices
             cannot be taken back.
Sampling.    Draws from $\mathrm{softmax}(\ell/\tau)$; `top_k` keeps the $k$ largest logits (all that tie with
             the last), `nucleus` the smallest set of most probable tokens whose mass reaches $p$.
Cost.        $T$ steps, times `width`; one program per model, length and width.
References.  Holtzman et al. (2020), on the nucleus; Graves (2012), on beams.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, check_shape, has_values, is_concrete
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.numerics import log_softmax
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Values
from tractable.neural.positions import check_tokens

__all__ = ["Decoded", "beam_search", "greedy", "sample_sequence", "sequence_log_prob", "truncated"]

Step = Callable[[Any, Any], tuple[Any, Any]]


class Decoded(Module):
    """Tokens behind the first one, and the log-probability of the whole under the model."""

    tokens: Int[Array, "... length"]
    log_prob: Float[Array, "..."] = field(about="under the model as it is, without truncation")


def greedy(step: Step, state: Any, first: int, *, length: int, end: int | None = None) -> Decoded:
    """The most probable token at each place.

    >>> def step(state, token):  # counts up, modulo four
    ...     return state, 5.0 * jax.nn.one_hot((token + 1) % 4, 4)
    >>> greedy(step, None, 0, length=5).tokens.tolist()
    [1, 2, 3, 0, 1]
    """
    length, token, end = _read(step, state, first, length, end)
    return _finite(_run(step, state, token, jnp.zeros(length), end, _largest, None))


@takes_key
def sample_sequence(
    key: Key,
    step: Step,
    state: Any,
    first: int,
    *,
    length: int,
    end: int | None = None,
    temperature: float | Array = 1.0,
    top_k: int | None = None,
    nucleus: float | None = None,
) -> Decoded:
    """One draw, from logits cut down by `truncated`; `jax.vmap` over keys for more."""
    length, token, end = _read(step, state, first, length, end)
    _check_truncation(temperature, top_k, nucleus)
    options = (
        jnp.asarray(temperature, float),
        top_k,
        None if nucleus is None else jnp.asarray(nucleus, float),
    )
    return _finite(_run(step, state, token, jr.split(key, length), end, _drawn, options))


def truncated(
    logits: Values,
    *,
    temperature: float | Array = 1.0,
    top_k: int | None = None,
    nucleus: float | Array | None = None,
) -> Float[Array, " vocabulary"]:
    r"""Log-probabilities of $\mathrm{softmax}(\ell/\tau)$ among the tokens that are kept, first by number,
    then by mass; the others have $-\infty$. At temperature zero the largest share everything.

    >>> jnp.exp(truncated(jnp.log(jnp.array([0.5, 0.3, 0.2])), nucleus=0.7)).round(3).tolist()
    [0.625, 0.375, 0.0]
    """
    _check_truncation(temperature, top_k, nucleus)
    logs = log_softmax(logits, temperature)
    if top_k is not None:
        least = jax.lax.top_k(logs, min(top_k, logs.size))[0][-1]
        logs = log_softmax(jnp.where(logs >= least, logs, -jnp.inf))
    if nucleus is not None:
        order = jnp.argsort(-logs)
        probs = jnp.exp(logs[order])
        # a token is kept if those before it have not reached the mass: the first one always
        kept = jnp.zeros(logs.shape, bool).at[order].set(jnp.cumsum(probs) - probs < nucleus)
        logs = log_softmax(jnp.where(kept, logs, -jnp.inf))
    return logs


def beam_search(
    step: Step,
    state: Any,
    first: int,
    *,
    length: int,
    width: int,
    end: int | None = None,
    penalty: float = 0.0,
) -> Decoded:
    r"""The `width` best sequences that a beam finds, best first, by $\log p / T^{\text{penalty}}$.

    $T$ counts the tokens up to `end`; without a penalty short sequences win, with one they do less. Fewer
    sequences than `width` leave rows of log-probability $-\infty$.
    """
    length, token, end = _read(step, state, first, check_count("length", length), end)
    width = check_count("width", width)
    check(penalty >= 0, "penalty", "zero or positive", penalty)
    return _finite(_beam(step, state, token, length, width, end, jnp.asarray(penalty, float)))


def sequence_log_prob(
    step: Step, state: Any, first: int, tokens: ArrayLike, *, end: int | None = None
) -> Float[Array, ""]:
    r"""$\log p(x_1 \dots x_T \mid x_0)$ under the model; what follows `end` is not counted."""
    tokens = jnp.asarray(tokens)
    check_shape("tokens", tokens, (None,), "One sequence at a time.")
    _, token, end = _read(step, state, first, len(tokens), end)
    tokens = check_tokens(tokens, _vocabulary(step, state))
    return _finite(_run(step, state, token, tokens, end, _given, None)).log_prob


@program
def _run(
    step: Step, state: Any, first: Array, inputs: Array, end: Any, choose: Callable, options: Any
) -> Decoded:
    """One token after another, each chosen by `choose(logits, input, options)`."""

    def advance(carry, given):
        state, token, total, over = carry
        state, logits = step(state, token)
        chosen = choose(logits, given, options).astype(token.dtype)
        cost = log_softmax(logits)[chosen]
        if end is not None:
            chosen, cost = jnp.where(over, end, chosen), jnp.where(over, 0, cost)
            over = over | (chosen == end)
        return (state, chosen, total + cost, over), chosen

    zero = jnp.zeros((), _kind(step, state))
    (_, _, total, _), tokens = jax.lax.scan(advance, (state, first, zero, jnp.asarray(False)), inputs)
    return Decoded(tokens, total)


@program
def _beam(step: Step, state: Any, first: Array, length: int, width: int, end: Any, penalty: Array) -> Decoded:
    """All beams together: states and beginnings are stacked, and follow their parents."""
    kind, vocabulary = _kind(step, state), _vocabulary(step, state)
    places = jnp.arange(vocabulary)

    def advance(carry, place):
        states, last, logs, ended, tokens = carry
        states, logits = jax.vmap(step)(states, last)
        costs = log_softmax(logits)
        if end is not None:  # a sequence that is over goes on in one way only
            costs = jnp.where((ended > 0)[:, None], jnp.where(places == end, 0, -jnp.inf)[None], costs)
        totals = logs[:, None] + costs
        reached = jnp.where(ended > 0, ended, place + 1)[:, None]
        scores = jnp.where(jnp.isneginf(totals), -jnp.inf, totals / reached ** penalty.astype(kind))
        best = jax.lax.top_k(scores.ravel(), width)[1]
        parent, chosen = best // vocabulary, (best % vocabulary).astype(last.dtype)
        states, ended, tokens = jax.tree.map(lambda leaf: leaf[parent], (states, ended, tokens))
        if end is not None:
            ended = jnp.where((ended == 0) & (chosen == end), place + 1, ended)
        return (states, chosen, totals.ravel()[best], ended, tokens.at[:, place].set(chosen)), None

    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (width, *jnp.shape(leaf))), state)
    logs = jnp.full(width, -jnp.inf, kind).at[0].set(0)  # one beginning: the others are none yet
    start = states, jnp.full(width, first), logs, jnp.zeros(width, int), jnp.zeros((width, length), int)
    (_, _, logs, _, tokens), _ = jax.lax.scan(advance, start, jnp.arange(length))
    return Decoded(tokens, logs)


def _largest(logits: Array, _: Any, __: Any) -> Array:
    return jnp.argmax(logits)


def _given(_: Array, token: Array, __: Any) -> Array:
    return token


def _drawn(logits: Array, key: Key, options: Any) -> Array:
    temperature, top_k, nucleus = options
    return jr.categorical(key, truncated(logits, temperature=temperature, top_k=top_k, nucleus=nucleus))


def _read(step: Step, state: Any, first: int, length: int, end: int | None) -> tuple[int, Array, Any]:
    """What all decoders are asked, checked against the vocabulary that the model's logits have."""
    vocabulary = _vocabulary(step, state)
    if end is not None:
        end = check_count("end", end, least=0, most=vocabulary - 1)
    first_token = check_tokens(first, vocabulary, "first").astype(int)
    return check_count("length", length, least=0), first_token, end


def _logits(step: Step, state: Any) -> Any:
    logits = jax.eval_shape(lambda state: step(state, jnp.asarray(0))[1], state)
    check(logits.ndim == 1, "step", "a function whose logits are one vector", f"shape {logits.shape}")
    return logits


def _vocabulary(step: Step, state: Any) -> int:
    return _logits(step, state).size


def _kind(step: Step, state: Any) -> Any:
    return _logits(step, state).dtype


def _finite(found: Decoded) -> Decoded:
    if has_values(found):
        fix = "Is a token outside of the vocabulary, or the sequence longer than the cache's `capacity`?"
        check(not np.isnan(np.asarray(found.log_prob)).any(), "step", "a model of finite logits", "NaN", fix)
    return found


def _check_truncation(temperature: Any, top_k: int | None, nucleus: Any) -> None:
    if is_concrete(temperature):
        ok = np.ndim(temperature) == 0 and float(temperature) >= 0
        check(ok, "temperature", "zero or positive", temperature)
    if top_k is not None:
        check_count("top_k", top_k)
    if nucleus is not None and is_concrete(nucleus):
        check(0 < float(nucleus) <= 1, "nucleus", "a mass above zero and up to one", nucleus)
