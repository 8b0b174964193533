"""Transformers: cached steps are the full pass, masks hide padding, and small tasks are solved or not."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.neural.decoding import beam_search, greedy, sample_sequence, sequence_log_prob, truncated
from tractable.neural.language_model import EncoderDecoder, LanguageModel
from tractable.neural.recurrent_network import RecurrentNetwork
from tractable.neural.token_loss import token_cross_entropy
from tractable.neural.training import train
from tractable.neural.transformer import FeedForward, TransformerBlock, TransformerEncoder
from tractable.optim.gradient import Adam

V = 5
TOKENS = np.array([1, 3, 0, 4, 2, 2])


def language(**options):
    return LanguageModel(V, 8, 2, 2, capacity=6, hidden=12, key=jr.key(0), dtype=jnp.float64, **options)


def stepped(model, state, tokens):
    """The logits of one step after another."""
    step, rows = eqx.filter_jit(model.step), []
    for token in tokens:
        state, row = step(state, jnp.asarray(token))
        rows.append(row)
    return np.array(rows)


@pytest.mark.cheap
@pytest.mark.parametrize("rotary", [True, False])
def test_cached_steps_are_the_full_pass(rotary):
    model = language(rotary=rotary)
    whole = jax.jit(lambda tokens: model(tokens))
    np.testing.assert_allclose(stepped(model, model.start(), TOKENS), whole(TOKENS), atol=1e-10)
    early = np.array(TOKENS)
    early[4:] = 0
    np.testing.assert_array_equal(whole(early)[:4], whole(TOKENS)[:4])


def test_no_row_depends_on_later_tokens_with_dropout_on():
    model = language(dropout=0.3)
    early = np.array(TOKENS)
    early[4:] = 0
    noisy = jax.jit(lambda tokens, key: model(tokens, key=key))
    one, other, third = (
        noisy(tokens, key) for tokens, key in ((TOKENS, jr.key(1)), (early, jr.key(1)), (TOKENS, jr.key(2)))
    )
    np.testing.assert_array_equal(one[:4], other[:4])
    assert abs(one[:4] - third[:4]).max() > 1e-3


def test_cached_steps_with_a_memory_are_the_full_pass_and_padding_of_the_source_is_not_seen():
    model = EncoderDecoder(7, V, 8, 2, 2, key=jr.key(0), dtype=jnp.float64, capacity=6, dropout=0.5)

    @jax.jit
    def whole(source, length):
        return eqx.nn.inference_mode(model)((source, TOKENS), length)

    source = np.array([6, 1, 2, 0])
    full = whole(source, 3)
    start = eqx.filter_jit(model.start)(source, 3)  # steps know no dropout
    np.testing.assert_allclose(stepped(model, start, TOKENS), full, atol=1e-10)
    np.testing.assert_array_equal(full, whole(np.array([6, 1, 2, 5]), 3))
    assert abs(full - whole(np.array([6, 1, 3, 0]), 3)).max() > 1e-3


def test_block_is_the_sum_of_its_parts_and_padding_changes_no_digit():
    block = TransformerBlock(8, 2, key=jr.key(0), dtype=jnp.float64)
    x = np.random.default_rng(0).normal(size=(4, 8))

    def normal(z):
        return (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-5)

    middle = x + np.asarray(block.attention(jnp.asarray(normal(x))))
    layer = block.forward
    inner = normal(middle) @ np.asarray(layer.into)
    gelu = inner * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
    np.testing.assert_allclose(block(jnp.asarray(x)), middle + gelu @ np.asarray(layer.back), atol=1e-10)
    encoder = TransformerEncoder(8, 2, 1, key=jr.key(1), dtype=jnp.float64)
    padded = np.concatenate([x, np.full((2, 8), np.nan)])
    whole = jax.jit(lambda z: encoder(z, length=4))
    found = whole(padded)
    np.testing.assert_array_equal(found, whole(np.nan_to_num(padded, nan=7.0)))
    np.testing.assert_allclose(found[:4], jax.jit(lambda z: encoder(z))(x), atol=1e-12)
    assert (found[4:] == 0).all()
    slope = jax.jit(jax.grad(lambda z: (encoder(z, length=4) ** 2).sum()))(padded)
    assert np.isfinite(slope).all()
    assert (slope[4:] == 0).all()
    with pytest.raises(ValueError, match="`x` must be finite; got nan"):
        encoder(jnp.asarray(padded))
    with pytest.raises(ValueError, match="`memory` must be given to a block with `memory_dim`"):
        TransformerBlock(8, 2, memory_dim=8, key=jr.key(0))(jnp.ones((2, 8)))
    assert (
        jax.eval_shape(FeedForward(8, 3, key=jr.key(0)), jnp.ones((2, 8), jnp.float32)).dtype == jnp.float32
    )


# --- decoding ------------------------------------------------------------------------------------------


def everything(model, first, length):
    """All sequences and their log-probabilities, from full passes."""
    sequences = np.array(list(itertools.product(range(V), repeat=length)))
    inputs = np.concatenate([np.full((len(sequences), 1), first), sequences[:, :-1]], 1)
    logs = jax.nn.log_softmax(jax.jit(jax.vmap(model))(inputs))
    return sequences, np.take_along_axis(np.asarray(logs), sequences[..., None], 2)[..., 0].sum(1)


def test_beam_as_wide_as_everything_is_exact_and_a_narrow_one_is_a_bound():
    model = language()
    sequences, logs = everything(model, 1, 3)
    np.testing.assert_allclose(np.exp(logs).sum(), 1, atol=1e-12)
    order = np.argsort(-logs)
    wide = beam_search(model.step, model.start(), 1, length=3, width=V**3)
    np.testing.assert_array_equal(wide.tokens, sequences[order])
    np.testing.assert_allclose(wide.log_prob, logs[order], atol=1e-10)
    best = greedy(model.step, model.start(), 1, length=3)
    assert best.log_prob <= logs.max() + 1e-12
    np.testing.assert_allclose(
        best.log_prob, logs[(sequences == np.asarray(best.tokens)).all(1)][0], atol=1e-10
    )
    narrow = beam_search(model.step, model.start(), 1, length=3, width=1)
    np.testing.assert_array_equal(narrow.tokens[0], best.tokens)
    given = sequence_log_prob(model.step, model.start(), 1, sequences[17])
    np.testing.assert_allclose(given, logs[17], atol=1e-10)


TABLE = np.log(np.random.default_rng(4).dirichlet(np.full(3, 0.7), size=3))


def chain(state, token):
    """A Markov chain as a decoder: the state is the table."""
    return state, state[token]


def test_the_end_of_a_sequence_ends_its_cost():
    wide = beam_search(chain, jnp.asarray(TABLE), 0, length=4, width=64, end=2)
    wanted = {}
    for tokens in itertools.product(range(3), repeat=4):
        cut = tokens[: tokens.index(2) + 1] if 2 in tokens else tokens
        path = (0, *cut)
        wanted[cut + (2,) * (4 - len(cut))] = sum(TABLE[a, b] for a, b in itertools.pairwise(path))
    best = sorted(wanted.items(), key=lambda pair: -pair[1])
    found = [tuple(row) for row, log in zip(wide.tokens.tolist(), wide.log_prob) if np.isfinite(log)]
    assert len(found) == len(set(found)) == len(wanted)
    np.testing.assert_allclose([wanted[tokens] for tokens in found], wide.log_prob[: len(found)], atol=1e-12)
    np.testing.assert_allclose(wide.log_prob[: len(best)], [log for _, log in best], atol=1e-12)
    np.testing.assert_allclose(np.exp(wide.log_prob).sum(), 1, atol=1e-12)
    lengths = {tokens: tokens.index(2) + 1 if 2 in tokens else 4 for tokens in wanted}
    by_mean = max(wanted, key=lambda tokens: wanted[tokens] / lengths[tokens])
    normed = beam_search(chain, jnp.asarray(TABLE), 0, length=4, width=64, end=2, penalty=1.0)
    assert tuple(normed.tokens[0].tolist()) == by_mean
    end = sequence_log_prob(chain, jnp.asarray(TABLE), 0, [2, 0, 1], end=2)
    np.testing.assert_allclose(end, TABLE[0, 2], atol=1e-12)


def test_truncation_by_sorting():
    probs = np.array([0.1, 0.4, 0.2, 0.25, 0.05])
    logs = jnp.log(jnp.asarray(probs))

    def kept(**options):
        return np.exp(truncated(logs, **options))

    np.testing.assert_allclose(kept(top_k=2), [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0], atol=1e-12)
    np.testing.assert_allclose(kept(nucleus=0.66), [0, 0.4 / 0.85, 0.2 / 0.85, 0.25 / 0.85, 0], atol=1e-12)
    np.testing.assert_allclose(kept(nucleus=0.64), kept(top_k=2), atol=1e-12)
    np.testing.assert_allclose(kept(nucleus=1e-6), [0, 1, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(kept(nucleus=1.0), probs, atol=1e-12)
    np.testing.assert_allclose(kept(temperature=0.5), probs**2 / (probs**2).sum(), atol=1e-12)
    np.testing.assert_allclose(kept(temperature=0.0), [0, 1, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(kept(top_k=9), probs, atol=1e-12)
    for options, words in (
        ({"nucleus": 0.0}, "`nucleus` must be a mass"),
        ({"top_k": 0}, "`top_k` must be a whole number"),
        ({"temperature": -1.0}, "`temperature` must be zero or positive"),
    ):
        with pytest.raises(ValueError, match=words):
            truncated(logs, **options)


# the check of keys takes a scan over keys under `vmap` for their second use
@pytest.mark.plain
def test_draws_have_the_frequencies_of_all_sequences():
    num, table = 4000, jnp.asarray(TABLE)

    def draw(key):
        return sample_sequence(key, chain, table, 0, length=2, temperature=0.8, top_k=2).tokens

    draws = np.asarray(jax.jit(jax.vmap(draw))(jr.split(jr.key(0), num)))
    cut = np.sort(TABLE, 1)[:, 1:2]
    law = np.where(cut <= TABLE, np.exp(TABLE / 0.8), 0)
    law /= law.sum(1, keepdims=True)
    for a, b in itertools.product(range(3), repeat=2):
        wanted = law[0, a] * law[a, b]
        error = np.sqrt(wanted * (1 - wanted) / num)
        assert abs(((draws == (a, b)).all(1)).mean() - wanted) <= 4.5 * error


def test_recurrent_networks_decode_by_the_same_functions():
    model = RecurrentNetwork(
        4, 6, V, vocabulary=V, read="all", cell="gru", key=jr.key(3), dtype=jnp.float64
    )  # fmt: skip
    sequences, logs = everything(model, 2, 2)
    wide = beam_search(model.step, model.start(), 2, length=2, width=V**2)
    np.testing.assert_allclose(wide.log_prob, np.sort(logs)[::-1], atol=1e-10)
    assert (wide.tokens[0] == sequences[logs.argmax()]).all()


def test_words_for_tokens_and_places_beyond():
    model = language()
    with pytest.raises(ValueError, match=r"`first` must be from 0 to 4, the tokens of the vocabulary; got 5"):
        greedy(model.step, model.start(), 5, length=2)
    with pytest.raises(ValueError, match=r"`end` must be a whole number from 0 to 4; got 7"):
        greedy(model.step, model.start(), 0, length=2, end=7)
    with pytest.raises(ValueError, match=r"`step` must be a model of finite logits; got NaN"):
        greedy(model.step, model.start(), 0, length=7)  # the cache holds six
    with pytest.raises(ValueError, match=r"`tokens` must be from 0 to 4.*got 9 at index 1"):
        model(np.array([0, 9]))
    with pytest.raises(ValueError, match=r"`targets` must be below 5"):
        token_cross_entropy(jnp.zeros((2, 5)), np.array([0, 5]))
    assert model(np.zeros(0, int)).shape == (0, V)
    assert greedy(model.step, model.start(), 0, length=0).tokens.shape == (0,)


def test_loss_of_tokens_counts_those_that_are_there():
    logits = np.random.default_rng(0).normal(size=(4, V))
    targets = np.array([1, -1, 4, -1])
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    wanted = -(logs[0, 1] + logs[2, 4]) / 2
    np.testing.assert_allclose(token_cross_entropy(jnp.asarray(logits), targets), wanted, atol=1e-12)
    assert token_cross_entropy(jnp.asarray(logits), -np.ones(4, int)) == 0


# --- tasks ---------------------------------------------------------------------------------------------


def copies(num, width, seed):
    """Random symbols, a mark, the symbols again: the loss asks for the second half only."""
    symbols = np.random.default_rng(seed).integers(1, 6, (num, width))
    tokens = np.concatenate([symbols, np.zeros((num, 1), int), symbols], 1)
    targets = np.where(np.arange(2 * width) < width, -1, tokens[:, 1:])
    return tokens[:, :-1], targets


@pytest.mark.thorough
def test_a_transformer_copies():
    width = 4
    model = LanguageModel(6, 16, 2, 2, hidden=32, capacity=2 * width + 1, key=jr.key(0))
    run = train(
        model, copies(2000, width, 0), token_cross_entropy, method=Adam(5e-3), key=1, batch=50, epochs=12,
        progress=False,
    )  # fmt: skip
    tokens, targets = copies(50, width, 1)
    answers = np.asarray(jax.vmap(run.state)(tokens)).argmax(2)
    assert (answers == targets)[targets >= 0].mean() > 0.98


@pytest.mark.thorough
def test_without_places_order_is_lost():
    # a whole (not causal) encoder without places permutes its rows with its inputs: it cannot tell order
    encoder = TransformerEncoder(8, 2, 1, key=jr.key(0), dtype=jnp.float64)
    x, order = np.random.default_rng(0).normal(size=(5, 8)), np.array([3, 0, 4, 1, 2])
    np.testing.assert_allclose(encoder(jnp.asarray(x[order])), encoder(jnp.asarray(x))[order], atol=1e-12)
