"""Attention against loops of NumPy; masks, order of time, places."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.neural.attention import (
    CrossAttention,
    SelfAttention,
    additive_score,
    attend,
    causal_mask,
    dot_score,
    general_score,
    masked_softmax,
    scaled_dot_score,
)
from tractable.neural.positions import TokenEmbedding, rotated, sinusoidal_positions
from tractable.neural.rows_product import rows_product

RNG = np.random.default_rng(0)
N, D = 5, 8
XS = np.random.default_rng(1).normal(size=(N, D))


def loop(queries, keys, values, score):
    """What each query retrieves, by the definition."""
    found = []
    for q in queries:
        weights = np.array([np.exp(score(q, k)) for k in keys])
        found.append(sum(w * v for w, v in zip(weights / weights.sum(), values)))
    return np.array(found)


def test_scores_are_their_formulas():
    q, k, v = RNG.normal(size=(3, 4)), RNG.normal(size=(5, 4)), RNG.normal(size=(5, 2))
    W, A, B, out = (RNG.normal(size=shape) for shape in ((4, 4), (4, 6), (4, 6), (6,)))
    cases = [
        (dot_score, lambda a, b: a @ b),
        (scaled_dot_score, lambda a, b: a @ b / 2),
        (lambda q, k: general_score(q, k, W), lambda a, b: a @ W @ b),
        (lambda q, k: additive_score(q, k, A, B, out), lambda a, b: out @ np.tanh(A.T @ a + B.T @ b)),
        (lambda q, k: additive_score(q, k, A, B), lambda a, b: (A.T @ a + B.T @ b).sum()),
    ]
    q, k, v = map(jnp.asarray, (q, k, v))
    for score, formula in cases:
        np.testing.assert_allclose(attend(q, k, v, score=score), loop(q, k, v, formula), atol=1e-12)
    blind = attend(q, k, v, score=cases[-1][0])  # the linear form does not hear the query
    np.testing.assert_allclose(blind, jnp.broadcast_to(blind[:1], blind.shape), atol=1e-12)


def test_variance_of_a_dot_product_is_the_dimension():
    dim, count = 64, 400
    q, k = np.random.default_rng(3).normal(size=(2, count, dim))
    dots = np.asarray(dot_score(jnp.asarray(q), jnp.asarray(k))).ravel()
    # pairs that share a query or a key are uncorrelated products, but not independent: their squares vary
    error = dim * np.sqrt(2 * 2 / count + 2 / count**2)
    assert abs(np.mean(dots**2) - dim) < 4 * error
    np.testing.assert_allclose(scaled_dot_score(jnp.asarray(q), jnp.asarray(k)).ravel(), dots / 8, atol=1e-12)


def heads_by_loop(layer, x, memory, allowed):
    """Multi-head attention one head and one query at a time."""
    width = D // layer.num_heads
    if isinstance(layer, SelfAttention):
        q, k, v = (np.asarray(x @ np.asarray(layer.project))[:, i * D : (i + 1) * D] for i in range(3))
    else:
        q, both = x @ np.asarray(layer.query), memory @ np.asarray(layer.key_and_value)
        k, v = both[:, :D], both[:, D:]
    found = np.zeros((len(x), D))
    for h in range(layer.num_heads):
        part = slice(h * width, (h + 1) * width)
        for i in range(len(x)):
            seen = [j for j in range(len(k)) if allowed(i, j)]
            if seen:
                one = loop(
                    q[i : i + 1, part], k[seen, part], v[seen, part], lambda a, b: a @ b / np.sqrt(width)
                )
                found[i, part] = one[0]
    return found @ np.asarray(layer.merge)


def test_heads_causal_order_and_memory_are_those_of_loops():
    whole = SelfAttention(D, 2, key=jr.key(0), dtype=jnp.float64)
    causal = SelfAttention(D, 2, causal=True, key=jr.key(0), dtype=jnp.float64)
    cross = CrossAttention(D, 2, memory_dim=3, key=jr.key(1), dtype=jnp.float64)
    memory = RNG.normal(size=(4, 3))
    present = np.array([False, True, True, False, True])
    np.testing.assert_allclose(whole(XS), heads_by_loop(whole, XS, XS, lambda i, j: True), atol=1e-12)
    np.testing.assert_allclose(causal(XS), heads_by_loop(causal, XS, XS, lambda i, j: j <= i), atol=1e-12)
    masked = causal(XS, present)  # the first place sees nothing
    wanted = heads_by_loop(causal, XS, XS, lambda i, j: j <= i and present[j])
    np.testing.assert_allclose(masked, wanted, atol=1e-12)
    assert (masked[0] == 0).all()
    looked = cross(XS, cross.remember(memory), present[:4])
    np.testing.assert_allclose(looked, heads_by_loop(cross, XS, memory, lambda i, j: present[j]), atol=1e-12)


def test_a_row_that_sees_nothing_is_zero_and_so_is_its_gradient():
    layer = SelfAttention(D, 2, key=jr.key(0), dtype=jnp.float64)
    mask = jnp.ones((N, N), bool).at[2].set(False)

    def row(x):
        return layer(x, mask)[2]

    value, slope = row(jnp.asarray(XS)), jax.jit(jax.jacobian(row))(jnp.asarray(XS))
    assert (value == 0).all()
    assert (slope == 0).all()
    scores = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    seen = jnp.array([[True, False], [False, False]])
    slope = jax.grad(lambda s: (masked_softmax(s, seen) ** 2).sum())(scores)
    assert np.isfinite(slope).all()
    assert (slope[1] == 0).all()
    nothing = layer(jnp.asarray(XS), jnp.zeros(N, bool))
    assert (nothing == 0).all()


def test_what_is_hidden_from_all_is_not_read():
    present, broken = jnp.arange(N) < 3, jnp.asarray(XS).at[3:].set(jnp.nan)
    layer, cross = (kind(D, 2, key=jr.key(0), dtype=jnp.float64) for kind in (SelfAttention, CrossAttention))
    np.testing.assert_array_equal(layer(broken, present)[:3], layer(jnp.asarray(XS), present)[:3])
    seen = [cross(jnp.asarray(XS), cross.remember(memory), present) for memory in (broken, jnp.asarray(XS))]
    np.testing.assert_array_equal(*seen)
    plain = attend(jnp.asarray(XS[:2]), broken, broken, mask=present)
    wanted = attend(jnp.asarray(XS[:2]), jnp.asarray(XS[:3]), jnp.asarray(XS[:3]))
    np.testing.assert_allclose(plain, wanted, rtol=1e-13)


@pytest.mark.cheap
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_the_causal_jacobian_is_zero_above_the_diagonal(dropout):
    layer = SelfAttention(D, 2, causal=True, rotary=True, dropout=dropout, key=jr.key(0), dtype=jnp.float64)
    slope = jax.jit(jax.jacobian(lambda x: layer(x, key=jr.key(1))))(jnp.asarray(XS))
    for i in range(N):
        assert (slope[i][:, i + 1 :] == 0).all()
        assert dropout or (abs(slope[i][:, : i + 1]).max((0, 2)) > 1e-6).all()
    changed = layer(jnp.asarray(XS).at[3:].set(1e3), key=jr.key(1))
    np.testing.assert_array_equal(changed[:3], layer(jnp.asarray(XS), key=jr.key(1))[:3])


def test_sinusoidal_places():
    found = sinusoidal_positions(30, 4, dtype=jnp.float64)
    np.testing.assert_allclose(found[1], [0.8414710, 0.5403023, 0.00999983, 0.99995000], atol=5e-8)
    for p in (0, 7, 29):
        for i in (0, 1):
            angle = p / 10000 ** (2 * i / 4)
            np.testing.assert_allclose(
                found[p, 2 * i : 2 * i + 2], [np.sin(angle), np.cos(angle)], atol=1e-12
            )
    # a shift of places is one linear map of all of them
    shift = np.linalg.lstsq(found[:-5], found[5:], rcond=None)[0]
    np.testing.assert_allclose(found[:-5] @ shift, found[5:], atol=1e-10)
    with pytest.raises(ValueError, match="`dim` must be even"):
        sinusoidal_positions(3, 5)


def test_rotary_products_depend_on_the_distance_alone():
    q, k = RNG.normal(size=(2, 1, 1, 6))

    def product(p, r):
        return float((rotated(q, jnp.array([p])) * rotated(k, jnp.array([r]))).sum())  # fmt: skip

    np.testing.assert_allclose(product(9, 4), product(105, 100), atol=1e-12)
    np.testing.assert_allclose(product(9, 4), product(5, 0), atol=1e-12)
    assert abs(product(9, 4) - product(9, 5)) > 1e-3
    np.testing.assert_allclose(product(3, 3), (q * k).sum(), atol=1e-12)


def test_flat_products_are_products_in_every_mode():
    rows, weight = jnp.asarray(RNG.normal(size=(3, 4, 2))), jnp.asarray(RNG.normal(size=(2, 5)))

    def loss(product):
        return lambda rows, weight: jnp.sin(jax.vmap(lambda r: product(r, weight))(rows)).sum()

    @jax.jit
    def slopes(rows, weight):
        functions = loss(rows_product), loss(jnp.matmul)
        modes = jax.grad, jax.jacfwd, jax.hessian
        own = jax.vmap(jax.grad(lambda w, r: (rows_product(r, w) ** 2).sum()), (None, 0))(weight, rows)
        return own, *([transform(f, (0, 1))(rows, weight) for transform in modes] for f in functions)

    each, one, other = slopes(rows, weight)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other)):
        np.testing.assert_allclose(a, b, atol=1e-12)
    np.testing.assert_allclose(each, 2 * np.einsum("btk,btm->bkm", rows, rows @ weight), atol=1e-12)
    weights = jnp.stack([weight, 2 * weight, -weight])
    np.testing.assert_allclose(jax.vmap(rows_product)(rows, weights), rows @ weights, atol=1e-12)


def test_words_for_what_does_not_fit():
    layer = SelfAttention(D, 2, key=jr.key(0))
    with pytest.raises(ValueError, match=r"`x` must be of shape \(any, 8\)"):
        layer(jnp.ones((2, N, D)))
    with pytest.raises(ValueError, match=r"`mask` must be of shape \(5,\) or \(5, 5\)"):
        layer(jnp.asarray(XS), jnp.ones(3, bool))
    with pytest.raises(ValueError, match=r"`mask` must be of booleans"):
        layer(jnp.asarray(XS), jnp.zeros((N, N)))
    with pytest.raises(ValueError, match=r"`num_heads` must be a divisor of `dim` \(8\)"):
        SelfAttention(D, 3, key=jr.key(0))
    with pytest.raises(ValueError, match=r"`values` must be as many as `keys` \(5\)"):
        attend(jnp.asarray(XS), jnp.asarray(XS), jnp.asarray(XS[:2]))
    with pytest.raises(ValueError, match=r"`keys` must be of shape \(any, 8\); got shape \(5, 3\)"):
        attend(jnp.asarray(XS), jnp.ones((5, 3)), jnp.asarray(XS))
    with pytest.raises(ValueError, match="`dropout` must be a share from 0 to below 1; got 1"):
        SelfAttention(D, 2, dropout=1.0, key=jr.key(0))
    assert layer(jnp.zeros((0, D))).shape == (0, D)
    assert causal_mask(0).shape == (0, 0)


@pytest.mark.cheap
@pytest.mark.parametrize("size", [6, 600])  # by products with one-hot rows, and by gathering
def test_tokens_beyond_the_vocabulary_are_never_other_tokens(size):
    table = TokenEmbedding(size, 3, key=jr.key(0), dtype=jnp.float64)
    np.testing.assert_array_equal(table(np.array([1, size - 1])), table.weight[jnp.array([1, size - 1])])
    for wrong in (size, -1):
        with pytest.raises(
            ValueError, match=rf"`tokens` must be from 0 to {size - 1}.*got {wrong} at index 1"
        ):
            table(np.array([0, wrong]))
        compiled = eqx.filter_jit(table)(jnp.array([0, wrong]))
        assert np.isnan(compiled[1]).all()
        assert np.isfinite(compiled[0]).all()
    with pytest.raises(TypeError, match="`tokens` must be whole numbers"):
        table(np.array([0.0]))
