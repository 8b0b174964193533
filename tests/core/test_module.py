"""Modules: validation, names in messages, plates, supports, how they are shown, behaviour as a pytree."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from tractable.core import (
    Module,
    Status,
    field,
    plates,
    positive,
    psd,
    real,
    run_until,
    simplex,
    supports,
)


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


class Shown(Module):
    values: Any = field(about="what was measured")
    hidden: float = field(show=False, default=1.0)
    absent: Any = None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1 + 0.2, "0.3"),
        (np.array([0.0, 1 / 3]), "[0.0, 0.333333]"),
        (jnp.eye(2), "[[1.0, 0.0], [0.0, 1.0]]"),
        (jnp.zeros((1000, 3)), "float64[1000, 3]"),
        (np.zeros(0), "float64[0]"),
        (jnp.asarray(3), "3"),
        (np.array([True, False]), "[True, False]"),
        (np.array(["a", "b"]), "['a', 'b']"),
        (np.array([None]), "object[1]"),
        (jax.random.key(0), "key<fry>[]"),
        (jax.ShapeDtypeStruct((2,), np.float32), "float32[2]"),
        ({"a": np.zeros(9), "b": (1, 2.5)}, "{a: float64[9], b: (1, 2.5)}"),
        (list(range(9)), "[9 entries]"),
        (("a",), "('a',)"),
        (jnp.log, "log"),
        (functools.partial(jnp.sum, axis=0), "partial(sum)"),
        (Status.converged, "converged"),
        (float, "float"),
        (object(), "object()"),
        ("x" * 100, "'" + "x" * 57 + "...'"),
        (pd.DataFrame({"a": [1, 2]}), "DataFrame[2, 1]"),
        (float("nan"), "nan"),
        (Model(jnp.zeros(1), jnp.eye(1)), "Model(loc=[0.0], cov=[[1.0]], scale=1.0, label='')"),
    ],
)
def test_objects_show_their_values(value, text):
    assert repr(Shown(value)) == f"Shown(values={text})"


def test_objects_are_shown_where_they_have_no_values():
    seen = []
    jax.jit(lambda m: seen.append(repr(m)) or m.scale)(model())
    assert seen == ["Model(loc=float64[2], cov=float64[2, 2], scale=float64[], label='')"]
    ended = run_until(lambda x: (x / 2, x), jnp.asarray(1.0), max_steps=3, tol=1e-6)
    jax.jit(lambda m: seen.append(repr(m)) or m.code)(ended)
    assert seen[1] == "Run(state=float64[], num_steps=int64[])"
    assert repr(jax.eval_shape(lambda m: m, ended)) == seen[1]
    assert "No verdict" in repr(jax.tree.map(lambda leaf: None, ended))
    assert repr(jax.tree.map(lambda leaf: object(), ended)) == "Run(state=object(), num_steps=object())"


def test_a_result_always_says_how_it_ended():
    def step(x):
        return x / 2, x

    ended = run_until(step, jnp.asarray(1.0), max_steps=3, tol=1e-6)
    assert repr(ended) == f"Run(state=0.125, num_steps=3)\n  {Status.exhausted.sentence}"
    stack = jax.vmap(lambda x: run_until(step, x, max_steps=3, tol=1e-6))(jnp.array([0.0, 1.0]))
    assert repr(stack) == "Run(state=[0.0, 0.125], num_steps=[2, 3])\n  2 runs: 1 converged, 1 exhausted."


def test_wide_objects_are_tables():
    wide = Shown({"first": np.arange(8.0), "second": np.arange(8.0), "third": np.arange(8.0)})
    name, row = repr(wide).splitlines()
    assert name == "Shown"
    assert row.startswith("  values  {first: [0.0, ")
    assert row.endswith("what was measured")
    outer = repr(Shown([wide])).splitlines()
    assert (len(outer), outer[1]) == (3, "  values  [Shown  what was measured")


def test_notebooks_see_a_table_with_the_verdict():
    page = Shown("<b>")._repr_html_()
    assert "<caption>Shown</caption>" in page
    assert "&lt;b&gt;" in page
    assert "<td>what was measured</td>" in page
    assert "hidden" not in page
    ended = run_until(lambda x: (x / 2, x), jnp.asarray(1.0), max_steps=3, tol=1e-6)
    assert Status.exhausted.sentence in ended._repr_html_()


def test_showing_large_arrays_does_not_read_them():
    big = np.broadcast_to(np.zeros(1), (10**9, 1000))
    assert repr(Shown(big)) == "Shown(values=float64[1000000000, 1000])"


class Race(Module):
    names: tuple = field(static=True)
    times: jax.Array

    def _columns(self):
        return {"runner": self.names, "time": np.asarray(self.times)}

    def _note(self):
        return "the shortest wins"


def test_a_class_with_columns_is_shown_as_a_table():
    race = Race(("ann", "bo<b>"), jnp.array([9.5, 10.25]))
    assert repr(race) == "runner   time\nann       9.5\nbo<b>   10.25\nthe shortest wins"
    html = race._repr_html_()
    assert "<tr><th>runner</th><th>time</th></tr><tr><td>ann</td><td>9.5</td></tr>" in html
    assert "bo&lt;b&gt;" in html
    assert html.endswith("<p><em>the shortest wins</em></p>")
    assert repr(jax.eval_shape(lambda: race)).startswith("Race(names=")  # no values yet: no table
