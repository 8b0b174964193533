"""Selective scans against loops and time-invariant systems; what they can do and no convolution can."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tests.neural.counting import work
from tractable.core.iterate import run
from tractable.neural import DiagonalSSM, SelectiveSSM, StateSpaceNetwork
from tractable.neural.memory_tasks import selective_copying
from tractable.neural.selective import selective_scan
from tractable.neural.structured_ssm import mean_growth
from tractable.statespace import LinearSystem, discretise

both = jax.jit(lambda *args: tuple(selective_scan(*args, method=m) for m in ("parallel", "sequential")))


def parts(length, channels=2, states=3, dtype=jnp.float64):
    keys = jr.split(jr.key(0), 5)
    poles = -jnp.exp(jr.normal(keys[0], (channels, states), dtype))
    steps = jnp.exp(jr.normal(keys[1], (length, channels), dtype) - 2)
    drive, readout = jr.normal(keys[2], (2, length, states), dtype)
    return poles, steps, drive, readout, jr.normal(keys[3], (length, channels), dtype)


def looped(poles, steps, drive, readout, x):
    """The definition, one number at a time."""
    poles, steps, drive, readout, x = (np.asarray(part, float) for part in (poles, steps, drive, readout, x))
    state, outputs = np.zeros(poles.shape), np.zeros(x.shape)
    for k in range(len(x)):
        for h in range(poles.shape[0]):
            for n in range(poles.shape[1]):
                factor = np.exp(steps[k, h] * poles[h, n])
                state[h, n] = factor * state[h, n] + (factor - 1) / poles[h, n] * drive[k, n] * x[k, h]
            outputs[k, h] = readout[k] @ state[h]
    return state, outputs


def test_both_scans_are_the_loop():
    given = parts(150)
    for state, outputs in both(*given):
        wanted = looped(*given)
        np.testing.assert_allclose(state, wanted[0], atol=1e-12)
        np.testing.assert_allclose(outputs, wanted[1], atol=1e-12)


def test_with_constant_maps_it_is_the_time_invariant_system():
    poles, steps, drive, readout, x = parts(70)
    steps, drive, readout = (jnp.broadcast_to(part[:1], part.shape) for part in (steps, drive, readout))
    for h in range(2):
        system = LinearSystem(np.diag(poles[h]), np.asarray(drive[0])[:, None], np.asarray(readout[0])[None])
        held = discretise(system, float(steps[0, h]))
        now = LinearSystem(held.A, held.B, held.C @ held.A, held.C @ held.B, held.step)
        wanted = now.simulate(x[:, h]).outputs[:, 0]
        for _, outputs in both(poles, steps, drive, readout, x):
            np.testing.assert_allclose(outputs[:, h], wanted, atol=1e-12)


@pytest.mark.cheap
@pytest.mark.parametrize(("dtype", "tol"), [("float64", 1e-10), ("float32", 1e-5)])
def test_modes_agree_at_ten_thousand_steps(dtype, tol):
    layer = SelectiveSSM(4, 8, dtype=jnp.dtype(dtype), key=jr.key(1))
    x = jr.normal(jr.key(2), (10_000, 4), jnp.dtype(dtype))
    parallel, (state, sequential) = eqx.filter_jit(lambda layer, x: (layer(x), layer.recur(x)))(layer, x)
    assert parallel.dtype == dtype
    assert float(jnp.abs(parallel).max()) > 1
    np.testing.assert_allclose(parallel, sequential, rtol=0, atol=tol)
    after, y = layer.step(state, x[0])
    longer = eqx.filter_jit(lambda layer, x: layer.recur(x))(layer, jnp.concatenate([x, x[:1]]))
    np.testing.assert_allclose(after, longer[0], atol=tol)
    np.testing.assert_allclose(y, longer[1][-1], atol=tol)


@pytest.mark.cheap
@pytest.mark.parametrize("kind", ["diagonal", "selective"])
def test_cost_is_linear_up_to_a_hundred_thousand_steps(kind):
    layer = (DiagonalSSM if kind == "diagonal" else SelectiveSSM)(2, 4, key=jr.key(3))
    lengths = 12_500, 25_000, 50_000, 100_000
    for mode in (layer, lambda x: layer.recur(x)[1]):
        counts = [work(mode, jax.ShapeDtypeStruct((length, 2), jnp.float32)) for length in lengths]
        slope = np.polyfit(np.log(lengths), np.log(counts), 1)[0]
        assert abs(slope - 1) < 0.08, counts  # n log n of a transform has a slope of 1.07 here
    # a quadratic kernel would not pass
    assert work(lambda x: x @ x.T, jax.ShapeDtypeStruct((100, 2), jnp.float32)) >= 10_000


def test_steps_that_pass_everything_over_have_slopes():
    # a softplus of -45: the square of the step is below the least number of single precision
    layer = eqx.tree_at(
        lambda l: l.widen.bias, SelectiveSSM(2, 3, key=jr.key(4)), jnp.full(2, -45.0, "float32")
    )
    x = jr.normal(jr.key(5), (6, 2), jnp.float32)
    slopes = eqx.filter_jit(eqx.filter_grad(lambda l: l(x).sum()))(layer)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    exact = np.array([(-1e-7, 0.499999966667), (-1e-3, 0.499666791633), (-0.5, 0.360816041724)])
    each = jax.jit(jax.vmap(jax.grad(mean_growth)))
    for kind, tol in (("float64", 1e-8), ("float32", 1e-3)):
        gaps = np.abs(each(exact[:, 0].astype(kind)) - exact[:, 1])  # from ((z - 1) e^z + 1) / z^2
        assert gaps.max() < tol


@pytest.mark.thorough
def test_causality_is_exact():
    layer = SelectiveSSM(2, 3, dtype=jnp.float64, key=jr.key(4))
    slopes = jax.jacobian(layer)(jr.normal(jr.key(5), (6, 2)))
    ahead = np.triu_indices(6, 1)
    assert (np.asarray(slopes).transpose(0, 2, 1, 3)[ahead] == 0).all()


def test_selection_copies_what_no_convolution_can():
    """Blanks are passed over ($\\Delta = 0$), so that age counts tokens only: eight of sixty times come back
    exactly. Any time-invariant layer with a linear readout is a fixed linear map of the sequence: the best of
    all, by least squares on five thousand sequences, hardly ever says all eight."""
    length, count, symbols = 60, 8, 3
    tokens, wanted = selective_copying(jr.key(6), 5400, length, count, symbols)
    seen = jax.nn.one_hot(tokens, symbols + 1)[..., :symbols]  # a blank is all zeros

    # states that forget by a factor each at a token: their readings are moments of the ages
    rates = jnp.linspace(0.1, 1.5, count)
    poles = -jnp.broadcast_to(rates[None], (symbols, count))
    steps = jnp.broadcast_to((tokens < symbols)[..., None], seen.shape) * 1.0
    ones = jnp.ones((length, count))
    states = jax.vmap(lambda step, x: selective_scan(poles, step, ones, ones, x)[0])(steps[:200], seen[:200])
    gains = -jnp.expm1(-rates) / rates
    moments = gains[:, None] * jnp.exp(-rates[:, None] * jnp.arange(count)[None])  # of a token of each age
    found = jnp.linalg.solve(moments[None], jnp.swapaxes(states, 1, 2))  # (sequence, age, symbol)
    np.testing.assert_array_equal(found.argmax(2)[:, ::-1], wanted[:200])

    design = np.c_[np.asarray(seen).reshape(5400, -1), np.ones(5400)]
    labels = np.asarray(jax.nn.one_hot(wanted, symbols)).reshape(5400, -1)
    weights = np.linalg.lstsq(design[:5000], labels[:5000], rcond=None)[0]
    right = (design[5000:] @ weights).reshape(-1, count, symbols).argmax(2) == np.asarray(wanted)[5000:]
    assert right.mean() < 0.72
    assert right.all(1).mean() < 0.1


@pytest.mark.cheap
@pytest.mark.parametrize("kind", ["diagonal", "selective"])
def test_a_network_decodes_as_it_trains(kind):
    network = StateSpaceNetwork(7, 5, 8, kind=kind, dtype=jnp.float64, key=jr.key(7))
    tokens = jr.randint(jr.key(8), (15,), 0, 7)
    whole = eqx.filter_jit(network)(tokens)
    assert whole.shape == (15, 5)
    decoded = eqx.filter_jit(lambda net, ids: run(lambda s, one: net.step(s, one), net.start(), ids).trace)(
        network, tokens
    )
    np.testing.assert_allclose(whole, decoded, atol=1e-10)


def test_slips_are_named():
    given = parts(5)
    with pytest.raises(ValueError, match="`steps, drive, readout, x` must be of one length"):
        selective_scan(*given[:-1], given[-1][:4])
    with pytest.raises(ValueError, match=r"of one length of at least one time; got .0, 0, 0, 0."):
        selective_scan(given[0], *(part[:0] for part in given[1:]))
    with pytest.raises(ValueError, match="`method` must be one of 'parallel'"):
        selective_scan(*given, method="chunked")
    with pytest.raises(ValueError, match="`rank` must be a whole number of at least 1; got 0"):
        SelectiveSSM(2, 3, rank=0, key=jr.key(9))
    layer = SelectiveSSM(2, 3, key=jr.key(9))
    with pytest.raises(ValueError, match=r"`x` must be of shape .length, 2."):
        layer(jnp.ones((4, 3)))
    with pytest.raises(ValueError, match="`x` must be finite; got nan"):
        layer(jnp.full((4, 2), jnp.nan))
    network = StateSpaceNetwork(4, 4, 2, blocks=1, key=jr.key(10))
    with pytest.raises(
        ValueError, match="`x` must be from 0 to 3, the tokens of the vocabulary; got 4 at index 1"
    ):
        network(jnp.array([0, 4]))
    with pytest.raises(ValueError, match="`x` must be from 0 to 3, the tokens of the vocabulary; got -1"):
        network.step(network.start(), -1)
    with pytest.raises(ValueError, match="`x` must be a list of tokens, at least one"):
        network(jnp.zeros(0, int))
    with pytest.raises(TypeError, match="`x` must be whole numbers"):
        network(jnp.ones(3))
    assert jnp.isnan(eqx.filter_jit(network)(jnp.array([0, 4]))[1]).all()  # no token is taken for another
