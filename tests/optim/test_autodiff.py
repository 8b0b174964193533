"""Dual numbers, tapes and formulas against traces written out by hand, JAX, and each other."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from tractable.optim import autodiff as ad
from tractable.optim.autodiff.rules import PARTIALS, VALUES, apply


def worked(x1, x2):
    """[sin(x1/x2) + x1/x2 - e^x2] [x1/x2 - e^x2], with shared parts."""
    ratio, power = x1 / x2, ad.exp(x2)
    inner = ratio - power
    return (ad.sin(ratio) + inner) * inner


def tangled(x, y):
    """Every kind of operation at once; written in operations that JAX and the tape share through `apply`."""
    ratio = (2 * x - y / 3) / (1 + x**2)
    smooth = ad.tanh(ratio) * ad.sigmoid(x * y) - ad.log(1 + y**2) + ad.sqrt(2 + ad.cos(x))
    kinked = ad.absolute(y) * 0.5 - ad.relu(x - y)
    return smooth + ad.tan(0.3 * x) ** 2 + kinked + 1.5**x + (2 + y**2) ** (x / 4)


def tangled_in_jax(v):
    x, y = v
    ratio = (2 * x - y / 3) / (1 + x**2)
    smooth = jnp.tanh(ratio) * jax.nn.sigmoid(x * y) - jnp.log(1 + y**2) + jnp.sqrt(2 + jnp.cos(x))
    kinked = jnp.abs(y) * 0.5 - jax.nn.relu(x - y)
    return smooth + jnp.tan(0.3 * x) ** 2 + kinked + 1.5**x + (2 + y**2) ** (x / 4)


tangled_slope = jax.jit(jax.grad(tangled_in_jax))


def test_worked_trace_of_values():
    found = ad.trace(worked, (1.5, 0.5))
    values = {node.label: node.value for node in found.tape.nodes}
    expected = {"x1": 1.5, "x2": 0.5, "v1": 3.0, "v2": 1.64872127, "v3": 1.35127873, "v4": 0.14112001}
    for label, value in (expected | {"v5": 1.49239874, "v6": 2.01664667}).items():
        np.testing.assert_allclose(values[label], value, atol=5e-9)
    np.testing.assert_allclose(found.value, 2.01664667, atol=5e-9)


def test_worked_gradient_forward_and_reverse():
    expected = [3.01184333, -13.72396151]
    np.testing.assert_allclose(ad.reverse_gradient(worked, (1.5, 0.5)), expected, atol=5e-9)
    np.testing.assert_allclose(ad.forward_gradient(worked, (1.5, 0.5)), expected, atol=5e-9)
    numeric = ad.central_difference(lambda v: worked(float(v[0]), float(v[1])), np.array([1.5, 0.5]))
    np.testing.assert_allclose(numeric, expected, rtol=1e-7)


def test_forward_sweep_of_the_tape_is_the_worked_accumulation():
    found = ad.trace(worked, (1.5, 0.5))  # the seed is dx1 = 1
    tangents = dict(zip([node.label for node in found.tape.nodes], found.tangents, strict=True))
    # dv1/dx1 = 1/x2; e^x2 does not depend on x1
    np.testing.assert_allclose([tangents["v1"], tangents["v2"], tangents["v3"]], [2.0, 0.0, 2.0])
    np.testing.assert_allclose(tangents["v6"], found.gradient[0], rtol=1e-14)
    both = ad.trace(worked, (1.5, 0.5), direction=(0.5, -2.0))
    np.testing.assert_allclose(both.tangents[both.output.index], found.gradient @ [0.5, -2.0], rtol=1e-13)


@given(x=st.floats(-3, 3), y=st.floats(-3, 3), z=st.floats(-3, 3))
def test_sum_times_factor_has_gradient_z_z_and_x_plus_y(x, y, z):
    found = ad.trace(lambda x, y, z: (x + y) * z, (x, y, z))
    np.testing.assert_array_equal(found.gradient, [z, z, x + y])
    assert found.adjoints[found.tape.nodes[3].index] == z  # of v1 = x + y
    assert [slope for _, slope in found.tape.nodes[3].slopes()] == [1.0, 1.0]  # dv1/dx = dv1/dy = 1


def test_trace_prints_as_the_table_one_would_write():
    lines = repr(ad.trace(worked, (1.5, 0.5))).splitlines()
    assert lines[0].split() == ["node", "operation", "value", "tangent", "adjoint"]
    assert lines[1].split() == ["x1", "input", "1.5", "1", "3.0118433"]
    assert lines[3].split() == ["v1", "x1", "/", "x2", "3", "2", "1.5059217"]
    assert lines[-1].split()[:4] == ["v6", "v5", "*", "v3"]
    assert len(lines) == 9


@given(x=st.floats(-2, 2), y=st.floats(-2, 2))
def test_all_modes_agree_with_jax(x, y):
    expected = np.asarray(tangled_slope(jnp.array([x, y])))
    hypothesis.assume(x != y and y != 0)  # kinks: each library has its own convention there
    np.testing.assert_allclose(ad.reverse_gradient(tangled, (x, y)), expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(ad.forward_gradient(tangled, (x, y)), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", sorted(PARTIALS))
def test_rule_is_the_derivative_of_its_value(name):
    point = (0.7, 1.3)[: len(PARTIALS[name])]
    for i, rule in enumerate(PARTIALS[name]):
        above, below = (
            VALUES[name](*[v + s * 1e-6 * (i == j) for j, v in enumerate(point)]) for s in (1, -1)
        )
        np.testing.assert_allclose(float(rule(*point)), (above - below) / 2e-6, rtol=1e-8, atol=1e-9)


def test_a_plain_exponent_asks_for_no_logarithm():
    assert ad.reverse_gradient(lambda x: x**2, (-3.0,))[0] == -6.0
    assert ad.reverse_gradient(lambda x: x**2, (0.0,))[0] == 0.0
    assert ad.reverse_gradient(lambda x: x**0 + x, (0.0,))[0] == 1.0
    x = ad.Variable("x")
    assert (x**2).derivative(x)(x=-3.0) == -6.0


def test_directional_derivative_of_several_outputs_is_the_jacobian_times_the_direction():
    value, slope = ad.directional_derivative(lambda x, y: [x * y, ad.sin(x), 4.0], (2.0, 3.0), (1.0, -1.0))
    np.testing.assert_allclose(value, [6.0, np.sin(2.0), 4.0])
    np.testing.assert_allclose(slope, [3.0 - 2.0, np.cos(2.0), 0.0])
    matrix = ad.forward_gradient(lambda x, y: [x * y, ad.sin(x)], (2.0, 3.0))
    np.testing.assert_allclose(matrix, [[3.0, 2.0], [np.cos(2.0), 0.0]])


def test_backpropagation_through_a_network_on_the_tape():
    generator = np.random.default_rng(0)
    arrays = {"A": (4, 3), "b": (4,), "C": (1, 4), "c": (1,), "x": (3,)}
    values = {name: generator.normal(size=shape) for name, shape in arrays.items()}
    tape = ad.Tape()
    nodes = {name: tape.variables(value, name) for name, value in values.items()}
    hidden = ad.relu(nodes["A"] @ nodes["x"] + nodes["b"])
    output = ad.sigmoid(nodes["C"] @ hidden + nodes["c"])[0]
    loss = -ad.log(output)
    adjoints = tape.adjoints(loss)

    def in_jax(v):
        hidden = jax.nn.relu(v["A"] @ v["x"] + v["b"])
        return -jnp.log(jax.nn.sigmoid(v["C"] @ hidden + v["c"])[0])

    expected = jax.jit(jax.grad(in_jax))({name: jnp.asarray(value) for name, value in values.items()})
    for name in arrays:
        found = np.vectorize(lambda node: adjoints[node.index])(nodes[name])
        np.testing.assert_allclose(found, expected[name], rtol=1e-12, atol=1e-15)


def test_numpy_scalars_and_arrays_mix_with_operands():
    x = ad.Dual(2.0, 1.0)
    assert (np.float64(3.0) * x).slope == 3.0
    assert (np.array([1.0, 2.0]) * x)[1].slope == 2.0
    assert apply("multiply", 2.0, 3.0) == 6.0


def test_nodes_of_two_tapes_are_refused():
    first, second = ad.Tape().variable(1.0, "x"), ad.Tape().variable(1.0, "y")
    with pytest.raises(ValueError, match="`arguments` must be nodes of one tape; got nodes of 2"):
        first * second


def test_function_that_ignores_the_tape_is_refused():
    with pytest.raises(TypeError, match="`function` must be one that returns a number made from its inputs"):
        ad.trace(lambda x: 3.0, (1.0,))
    with pytest.raises(ValueError, match="`direction` must be as long as `point`"):
        ad.trace(lambda x: x, (1.0,), direction=(1.0, 2.0))
    with pytest.raises(ValueError, match="`direction` must be of length 2; got length 1"):
        ad.directional_derivative(lambda x, y: x, (1.0, 2.0), (1.0,))


def test_worked_formula_by_symbols():
    x, y = ad.variables("x y")
    f = (x + 2 * y**3) ** 2
    assert repr(f.derivative(x)) == "2 * (x + 2 * y ** 3)"
    assert repr(f.derivative(y)) == "12 * (x + 2 * y ** 3) * y ** 2"
    assert (f.derivative(x)(x=1, y=1), f.derivative(y)(x=1, y=1)) == (6.0, 36.0)


def test_quotient_rule_has_a_minus():
    x = ad.Variable("x")
    f, g = ad.sin(x), 2 + x**2
    expected = (np.cos(0.7) * (2 + 0.49) - np.sin(0.7) * 1.4) / (2 + 0.49) ** 2
    np.testing.assert_allclose((f / g).derivative(x)(x=0.7), expected, rtol=1e-14)


@given(x=st.floats(0.1, 2), y=st.floats(0.1, 2))
def test_symbolic_derivative_of_everything_agrees_with_jax(x, y):
    hypothesis.assume(x != y)
    expected = np.asarray(tangled_slope(jnp.array([x, y])))
    found = [slope(x=x, y=y) for slope in TANGLED_SLOPES]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(TANGLED_SIMPLE(x=x, y=y), TANGLED(x=x, y=y), rtol=1e-13)


TANGLED = tangled(*ad.variables("x y"))
TANGLED_SIMPLE = ad.simplify(TANGLED)
TANGLED_SLOPES = [TANGLED.derivative(v) for v in ad.variables("x y")]


def test_simplify_folds_numbers_and_removes_what_changes_nothing():
    x, y = ad.variables("x y")
    cases = {
        x * 0 + 1 * y: "y",
        x + 0 - 0: "x",
        (x**1) * (y**0): "x",
        2 * x * 3: "6 * x",
        x - x: "0",
        0 - (-x): "x",
        x + x: "2 * x",
        0 / x: "0",
        x / 1: "x",
        x + (-2) * y: "x - 2 * y",
        x * (3 / y): "3 * x / y",
        ad.sin(x * 0): "0",
        x - (y - 1): "x - (y - 1)",
    }
    for formula, text in cases.items():
        assert repr(ad.simplify(formula)) == text


def test_what_has_no_value_is_left_as_it_stands():
    zero = ad.Constant(0.0)
    assert repr(ad.simplify(1 / zero)) == "1 / 0"
    assert repr(ad.simplify(ad.log(zero - 1))) == "log(-1)"


def test_missing_variable_is_named():
    x, y = ad.variables("x y")
    with pytest.raises(ValueError, match="`values` must be a value for `y`; got"):
        (x * y)(x=1.0)


def test_sympy_bridge_or_a_sentence_that_says_how_to_have_it():
    x, y = ad.variables("x y")
    formula = ad.sin(x * y) / (1 + ad.exp(-x)) + x**2
    try:
        import sympy
    except ModuleNotFoundError:
        with pytest.raises(ModuleNotFoundError, match="`to_sympy` needs SymPy: pip install sympy"):
            ad.to_sympy(formula)
    else:
        other = sympy.diff(ad.to_sympy(formula), sympy.Symbol("x"))
        value = float(other.subs({"x": 0.4, "y": 1.2}))
        np.testing.assert_allclose(formula.derivative(x)(x=0.4, y=1.2), value, rtol=1e-12)
