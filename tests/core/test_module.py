"""Modules: validation at construction, names in messages, plates, supports, and behaviour as a pytree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.core import Module, field, plates, positive, psd, real, simplex, supports


class Model(Module):
    loc: jax.Array = field(support=real, rank=1)
    cov: jax.Array = field(support=psd)
    scale: jax.Array = field(support=positive, default=1.0)
    label: str = field(static=True, default="")


def model(**changes):
    return Model(**({"loc": jnp.zeros(2), "cov": jnp.eye(2)} | changes))


def test_parameters_become_floats_and_keep_single_precision():
    made = model(loc=[1, 2], scale=np.float32(3))
    assert made.loc.dtype == np.float64
    assert made.scale.dtype == np.float32
    np.testing.assert_array_equal(made.loc, [1.0, 2.0])


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"scale": -1.0}, ValueError, r"`scale` must be positive and finite; got -1\.0\.$"),
        (
            {"scale": np.array([1.0, 0.0])},
            ValueError,
            r"`scale` must be positive and finite; got 0\.0 at index 1",
        ),
        ({"scale": np.nan}, ValueError, "`scale` must be positive and finite; got nan"),
        ({"loc": 1.0}, ValueError, r"`loc` must be an array with at least 1 axes; got shape \(\)"),
        ({"loc": [0.0, np.inf]}, ValueError, "`loc` must be finite; got inf at index 1"),
        (
            {"cov": np.diag([1.0, -1.0])},
            ValueError,
            "`cov` must be a symmetric positive semi-definite matrix; got",
        ),
        ({"cov": np.ones((2, 3))}, ValueError, "`cov` must be a symmetric positive semi-definite matrix"),
        ({"scale": "wide"}, TypeError, "`scale` must be a real number"),
        ({"scale": None}, TypeError, "`scale` must be a real number"),
    ],
)
def test_bad_values_are_refused_by_name(changes, error, words):
    with pytest.raises(error, match=words):
        model(**changes)


def test_two_classes_do_not_share_names():
    class First(Module):
        one: jax.Array = field(support=positive)

    class Second(Module):
        two: jax.Array = field(support=positive)

    with pytest.raises(ValueError, match="`one`"):
        First(-1.0)
    with pytest.raises(ValueError, match="`two`"):
        Second(-1.0)


def test_a_subclass_keeps_the_checks_of_its_fields():
    class Special(Model):
        extra: jax.Array = field(support=simplex, default_factory=lambda: jnp.array([0.5, 0.5]))

    with pytest.raises(ValueError, match="`scale`"):
        Special(jnp.zeros(2), jnp.eye(2), -1.0)
    with pytest.raises(ValueError, match="`extra` must be probabilities"):
        Special(jnp.zeros(2), jnp.eye(2), 1.0, extra=[0.5, 0.6])


def test_modules_are_frozen_pytrees_with_static_fields():
    made = model(label="a")
    with pytest.raises(AttributeError):
        made.scale = 2.0
    assert len(jax.tree.leaves(made)) == 3
    doubled = jax.tree.map(lambda leaf: 2 * leaf, made)
    assert (float(doubled.scale), doubled.label) == (2.0, "a")
    assert jax.tree.structure(made) != jax.tree.structure(model(label="b"))


def test_values_are_not_checked_inside_compiled_programs():
    assert float(jax.jit(lambda s: model(scale=s).scale)(-1.0)) == -1.0
    assert float(jax.grad(lambda s: model(scale=s).scale ** 2)(3.0)) == 6.0
    with pytest.raises(ValueError, match="`loc` must be an array with at least 1 axes"):
        jax.jit(lambda s: model(loc=s).scale)(1.0)


def test_plates_are_the_leading_axes_after_broadcasting():
    assert plates(model()) == ()
    assert plates(model(loc=jnp.zeros((5, 2)))) == (5,)
    assert plates(model(loc=jnp.zeros((5, 2)), scale=jnp.ones((4, 1)))) == (4, 5)
    with pytest.raises(
        ValueError, match=r"`Model` must have parameters whose shapes broadcast; got .*'loc': \(5, 2\)"
    ):
        plates(model(loc=jnp.zeros((5, 2)), scale=jnp.ones(3)))


def test_supports_of_the_fields():
    assert supports(model()) == {"loc": real, "cov": psd, "scale": positive}
