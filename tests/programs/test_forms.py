"""Forms against the functions themselves, run by NumPy: claims hold, and none is missed without need."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.programs.random_functions import AFFINE, POWERS, TIGHT, inputs, random_function
from tractable.distributions import Normal
from tractable.programs.forms import Form, forms

SCALE = 1e-9  # of the deviations from a form that are rounding, relative to the largest number met


def points(function, rng, chosen, coefficients, positive=False):
    """The values of a function where the chosen inputs are random and then combined, the others fixed."""
    base = inputs(rng)
    free = [[np.asarray(np.abs(x) + 0.5 if positive else x) for x in inputs(rng)[:3]] for _ in range(3)]
    if positive:
        base[:3] = [np.asarray(np.abs(x) + 0.5) for x in base[:3]]

    def at(weights):
        moved = [
            sum(w * each[i] for w, each in zip(weights, free)) if mark else base[i]
            for i, mark in enumerate(chosen)
        ]
        with np.errstate(all="ignore"):
            return function(*map(np.asarray, moved), *base[3:])

    return [at(weights) for weights in coefficients]


def is_near(a, b):
    numbers = np.concatenate([np.ravel(a), np.ravel(b)])
    size = np.max(np.abs(numbers), where=np.isfinite(numbers), initial=1.0)
    return np.allclose(a, b, rtol=0, atol=SCALE * size, equal_nan=True)


def is_affine(function, rng, chosen, positive):
    mixed = (0.5, 0.3, 0.2)
    *corners, inside = points(function, rng, chosen, [(1, 0, 0), (0, 1, 0), (0, 0, 1), mixed], positive)
    with np.errstate(all="ignore"):
        return [is_near(sum(w * x for w, x in zip(mixed, xs)), y) for *xs, y in zip(*corners, inside)]


def is_constant(function, rng, chosen, positive):
    a, b = points(function, rng, chosen, [(1, 0, 0), (0, 1, 0)], positive)
    return [is_near(x, y) for x, y in zip(a, b)]


def scales_by(function, rng, chosen, exponents, positive):
    a, b = points(function, rng, chosen, [(1, 0, 0), (2, 0, 0)], positive)
    return [is_near(x * 2.0**p, y) for x, y, p in zip(a, b, exponents)]


def drawn(seed, names, num_steps=5):
    rng = np.random.default_rng(seed)
    function = random_function(rng, list(names), num_steps)
    chosen = [(True, True, True), (True, False, True), (False, True, False), (True, False, False)][seed % 4]
    closed = jax.make_jaxpr(function)(*map(jnp.asarray, inputs(rng)))
    return function, rng, chosen, as_powers(forms(closed, [*chosen, *[False] * 4]))


def as_powers(found):
    """Forms, elements that are the inputs themselves counted as their first powers."""
    return [Form.power(form.exponent) if form.is_power else form for form in found]


def hold(function, rng, chosen, found, positive=False):
    """Whether each claim is true of the function, as far as random points tell."""
    affine = is_affine(function, rng, chosen, positive)
    constant = is_constant(function, rng, chosen, positive)
    scaling = scales_by(function, rng, chosen, [form.exponent for form in found], positive)
    facts = {
        "constant": constant,
        "affine": affine,
        "linear": [a and b for a, b in zip(affine, scaling)],
        "power": [b and (a or form.exponent != 1) for a, b, form in zip(affine, scaling, found)],
        "other": [True] * len(found),
    }
    return [facts[form.kind][i] for i, form in enumerate(found)]


def test_affine_functions_are_known_to_be():
    for seed in range(80):
        function, rng, chosen, found = drawn(seed, AFFINE)
        assert all(form.is_affine for form in found), (seed, found)
        assert all(hold(function, rng, chosen, found)), (seed, found)


def test_claims_of_powers_hold():
    kinds = set()
    for seed in range(80):
        function, rng, chosen, found = drawn(seed, [*POWERS, "picked", "summed", "spread", "joined", "flat"])
        assert all(hold(function, rng, chosen, found, positive=True)), (seed, found)
        kinds |= {form.kind for form in found}
    assert kinds == {"constant", "affine", "linear", "power", "other"}


# forms are those of whole arrays: where some entries are constant, or the carry of some steps, a product of
# two arrays is called other although each of its entries may have one factor that is constant
MIXED = {
    "joined",
    "stacked",
    "padded",
    "set",
    "added_to",
    "put_at_place",
    "chosen",
    "chain",
    "backward_chain",
}
MIXED |= {"second_order", "held", "counted", "walk", "delayed_walk"}


def test_claims_hold_and_none_is_missed_where_it_shows():
    missed = []
    for seed in range(80):
        mixed = seed % 2 == 0
        function, rng, chosen, found = drawn(seed, TIGHT if mixed else sorted(set(TIGHT) - MIXED), 4)
        assert all(hold(function, rng, chosen, found)), (seed, found)
        true = is_affine(function, rng, chosen, False)
        missed += [seed for a, form in zip(true, found) if a and not form.is_affine and not mixed]
    assert missed == []


VECTOR = jnp.array([0.5, 1.5, 2.5])
CASES = {
    "identity": (lambda v: v, Form.power(1)),
    "root": (jnp.sqrt, Form.power(0.5)),
    "inverse": (lambda v: 2 / v, Form.power(-1)),
    "square": (lambda v: 3 * v**2, Form.power(2)),
    "power": (lambda v: v**0.7, Form.power(0.7)),
    "inverse_root": (jax.lax.rsqrt, Form.power(-0.5)),
    "same_elements": (lambda v: v * jnp.sqrt(v), Form.power(1.5)),
    "same_elements_moved": (lambda v: v[::-1] * jnp.sqrt(v[::-1]), Form.power(1.5)),
    "other_elements": (lambda v: v * v[::-1], Form.other),
    "ratio_of_itself": (lambda v: v / v, Form.constant),
    "absolute": (jnp.abs, Form.other),
    "absolute_in_disguise": (lambda v: jnp.sqrt(v**2), Form.other),
    "sum_of_powers": (lambda v: jnp.sum(v**2), Form.other),
    "sum": (lambda v: jnp.sum(v), Form.linear),
    "centred": (lambda v: v - v.mean(), Form.linear),
    "offset": (lambda v: v + 1, Form.affine),
    "clipped": (lambda v: jnp.clip(v, 0, 1), Form.other),
    "larger": (lambda v: jnp.maximum(v, 1), Form.other),
    "chosen_by_itself": (lambda v: jnp.where(v > 0, v, 0), Form.other),
    "masked": (lambda v: jnp.where(jnp.array([True, False, True]), v, 0), Form.power(1)),
    "exponential": (jnp.exp, Form.other),
    "triangular": (lambda v: jax.scipy.linalg.solve_triangular(jnp.eye(3) * 2, v, lower=True), Form.linear),
    "solved": (lambda v: jnp.linalg.solve(jnp.eye(3) * 2, v), Form.linear),
    "quadratic": (lambda v: v @ jnp.eye(3) @ v, Form.other),
    "to_whole": (lambda v: v.astype(int), Form.other),
    "to_single": (lambda v: v.astype(jnp.float32), Form.power(1)),
    "known_branch": (
        lambda v: jax.lax.cond(jnp.arange(3).sum() > 2, lambda v: 2 * v, lambda v: v + 1, v),
        Form.affine,
    ),
    "branch": (lambda v: jax.lax.cond(v[0] > 0, lambda v: 2 * v, lambda v: v + 1, v), Form.other),
    "recomputed": (jax.checkpoint(lambda v: 2 * v), Form.power(1)),
    "custom": (jax.nn.relu, Form.other),
    "counted_loop": (lambda v: jax.lax.fori_loop(0, 3, lambda i, c: 2 * c + v, v), Form.linear),
    "loop": (
        lambda v: jax.lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] + v, c[1] + 1), (v, 0))[0],
        Form.linear,
    ),
    "loop_on_itself": (lambda v: jax.lax.while_loop(lambda c: c[0] < 3, lambda c: c + v, v), Form.other),
    "carried_apart": (lambda v: jax.lax.scan(lambda c, r: (r, c * r), v[0], v)[1], Form.other),
    "carried_in_a_branch": (
        lambda v: jax.lax.scan(
            lambda c, r: (
                r,
                jax.lax.while_loop(lambda d: d[1] < 2, lambda d: (d[0] * c, d[1] + 1), (r, 0))[0],
            ),
            v[0],
            v,
        )[1],
        Form.other,
    ),
}


@pytest.mark.cheap
@pytest.mark.parametrize("name", CASES)
def test_form(name):
    function, form = CASES[name]
    assert as_powers(forms(jax.make_jaxpr(function)(VECTOR), [True])) == [form]


def test_single_numbers_come_out_of_matrices():
    cov = jnp.eye(3) + 0.5

    def program(scale, variance):
        lower = jnp.linalg.cholesky(variance * cov)
        whitened = jax.scipy.linalg.solve_triangular(lower, jnp.ones(3), lower=True)
        return lower, whitened, scale**2 * cov, jnp.linalg.cholesky(scale**2 * cov), scale * jnp.ones(3)

    closed = jax.make_jaxpr(program)(1.0, 2.0)
    assert forms(closed, [False, True])[:2] == [Form.power(0.5), Form.power(-0.5)]
    assert as_powers(forms(closed, [True, False]))[2:] == [Form.power(2), Form.other, Form.power(1)]


def test_parameters_of_a_site():
    county, x = np.array([0, 1, 1, 2]), np.ones(4)

    def program(alpha, beta, sigma):
        law = Normal(alpha[county] + beta * x, sigma)
        return law.loc, law.scale, law.log_prob(jnp.ones(4))

    closed = jax.make_jaxpr(program)(jnp.ones(3), 1.0, 1.0)
    assert forms(closed, [True, True, False]) == [Form.linear, Form.constant, Form.other]
    assert as_powers(forms(closed, [False, False, True])) == [Form.constant, Form.power(1), Form.other]
    with pytest.raises(ValueError, match="chosen"):
        forms(closed, [True])
