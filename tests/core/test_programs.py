"""Programs: compiled once per structure, forgotten with their functions, transparent to transformations."""

import gc
import threading
from collections import OrderedDict
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.core import programs
from tractable.core.iterate import count_traces
from tractable.core.module import Module
from tractable.core.programs import as_data, num_programs, program


class Line(Module):
    slope: jax.Array
    name: str = eqx.field(static=True)

    @program
    def at(self, x):
        return self.slope * x


@program
def applied(function, x, *, power=1):
    return {"value": function(x) ** power, "power": power, "name": function.__name__}


def test_new_arrays_use_the_program_and_new_options_make_another():
    counted = count_traces(jnp.sin)
    counted.__name__ = "sine"
    for x in (0.1, 0.2):
        found = applied(counted, jnp.asarray(x), power=2)
        np.testing.assert_allclose(found["value"], np.sin(x) ** 2, rtol=1e-14)
        assert (found["power"], found["name"]) == (2, "sine")
    assert counted.count == 1
    applied(counted, np.float64(0.3), power=2)  # a scalar of NumPy is an array as well
    assert counted.count <= 2  # of another weak type at most
    before = counted.count
    applied(counted, jnp.asarray(0.3), power=3)
    assert counted.count == before + 1


def test_numbers_in_args_are_data():
    counted = count_traces(lambda x, scale: scale * x)
    held = program(lambda function, x, args: function(x, *args))
    for scale in (0.5, 1.5, 2.5):
        assert float(held(counted, jnp.asarray(2.0), as_data((scale,)))) == 2 * scale
    assert counted.count == 1
    line = Line(jnp.asarray(2.0), "a")
    assert as_data((line, jnp.sin))[0] is line
    assert as_data((line, jnp.sin))[1] is jnp.sin


def test_equal_values_of_other_types_are_other_programs():
    kinds = program(lambda value: type(value).__name__)
    assert [kinds(value) for value in (1, True, 1.0)] == ["int", "bool", "float"]


@pytest.mark.thorough
def test_a_program_dies_with_its_function_and_so_does_its_code(monkeypatch):
    monkeypatch.setattr(programs, "_kept", OrderedDict())  # of those that are kept anyway none is forgotten
    applied(jnp.sum, jnp.zeros(3))
    gc.collect()
    before = num_programs()
    for shift in range(20):
        applied(lambda x, shift=shift: x + shift, jnp.zeros(3))
    gc.collect()
    assert num_programs() == before


def test_an_answer_that_holds_its_function_does_not_keep_the_program(monkeypatch):
    """Compiled code holds the structure of its answer: with the function in it, neither could ever go."""
    monkeypatch.setattr(programs, "_kept", OrderedDict())

    @program
    def paired(function, x):
        return {"function": function, "value": function(x)}

    for shift in range(3):

        def shifted(x, shift=shift):
            return x + shift

        found = paired(shifted, jnp.zeros(2))
        assert found["function"] is shifted
        np.testing.assert_array_equal(found["value"], np.full(2, float(shift)))
    del found, shifted
    gc.collect()
    assert num_programs() == 0


@pytest.mark.thorough
def test_functions_that_live_are_bounded(monkeypatch):
    monkeypatch.setattr(programs, "MOST", 5)
    living = [lambda x, shift=shift: x + shift for shift in range(12)]
    for function in living:
        applied(function, jnp.zeros(2))
    assert num_programs() <= 5
    for shift, function in enumerate(living):  # those forgotten are compiled again
        np.testing.assert_array_equal(applied(function, jnp.zeros(2))["value"], np.full(2, float(shift)))


def test_methods_of_modules_and_of_objects():
    line = Line(jnp.asarray(2.0), "a")
    assert line.at(jnp.asarray(3.0)) == 6.0

    class Counter:
        count = 0

        def step(self, x):
            self.count += 1
            return x + 1

    counter = Counter()
    for _ in range(3):
        assert applied(counter.step, jnp.asarray(1.0))["value"] == 2.0
    assert counter.count == 1


def test_transformations_pass_through():
    slope = jax.grad(lambda x: applied(jnp.sin, x)["value"])(0.3)
    np.testing.assert_allclose(slope, np.cos(0.3), rtol=1e-14)
    rows = jax.vmap(lambda x: applied(jnp.sin, x)["value"])(jnp.arange(3.0))
    np.testing.assert_allclose(rows, np.sin(np.arange(3.0)), rtol=1e-14)
    inside = jax.jit(lambda x: applied(jnp.sin, x)["value"])(0.3)
    np.testing.assert_allclose(inside, np.sin(0.3), rtol=1e-14)


def test_threads_agree():
    found = {}

    def work(index):
        found[index] = [float(applied(jnp.cos, jnp.asarray(float(k)))["value"]) for k in range(20)]

    workers = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(found[index] == found[0] for index in range(4))


def test_an_error_inside_leaves_nothing_wrong_behind():
    def fails(x):
        raise ValueError("`x` must be nothing; got something.")

    for _ in range(2):
        with pytest.raises(ValueError, match="must be nothing"):
            applied(fails, jnp.zeros(2))
    assert applied(jnp.sum, jnp.ones(2))["value"] == 2.0


def test_the_library_compiles_functions_of_users_by_programs_alone():
    source = Path(programs.__file__).parent.parent
    users = [path.name for path in source.rglob("*.py") if "filter_jit" in path.read_text(encoding="utf-8")]
    assert not users


def test_a_light_program_is_a_program_also_within_others_and_where_the_compiler_knows_no_such_option(
    monkeypatch,
):
    @program
    @programs.light
    def tripled(x):
        return 3 * x

    monkeypatch.delenv("XLA_FLAGS", raising=False)
    np.testing.assert_array_equal(tripled(jnp.ones(2)), [3.0, 3.0])
    np.testing.assert_array_equal(jax.jit(lambda x: tripled(x))(jnp.ones(2)), [3.0, 3.0])
    np.testing.assert_array_equal(jax.vmap(tripled)(jnp.ones(2)), [3.0, 3.0])
    assert programs._light_options() == programs._LIGHT
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
    assert set(programs._light_options()) == {"xla_cpu_use_fusion_emitters"}
    monkeypatch.setattr(programs, "_LIGHT", {"xla_of_another_version": 1})
    assert programs._light_options()
    np.testing.assert_array_equal(tripled(jnp.ones(3)), [3.0] * 3)
