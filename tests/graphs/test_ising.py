"""Pairwise fields against closed forms and enumeration."""

import itertools

import numpy as np
import pytest

from tractable.graphs.ising import boltzmann_machine, grid_edges, ising_field, potts_field


def _ring(n):
    return [(f"s{i}", f"s{(i + 1) % n}") for i in range(n)]


def test_partition_function_of_three_spins_on_a_cycle():
    total = np.exp(float(ising_field(_ring(3)).log_partition()))
    np.testing.assert_allclose(total, 42.3783505, atol=5e-8)
    np.testing.assert_allclose(total, (2 * np.cosh(1)) ** 3 + (2 * np.sinh(1)) ** 3, rtol=1e-13)


@pytest.mark.parametrize("n", [4, 9])
def test_transfer_matrix_of_a_ring_with_a_field(n):
    coupling, h = 0.7, 0.3
    transfer = np.array([[np.exp(coupling * a * b + h * (a + b) / 2) for b in (-1, 1)] for a in (-1, 1)])
    expected = np.log((np.linalg.eigvalsh(transfer) ** n).sum())
    field = ising_field(_ring(n), h, coupling=coupling)
    np.testing.assert_allclose(field.log_partition(), expected, rtol=1e-13)
    assert field.states["s0"] == (-1, 1)


def test_own_couplings_and_fields_by_enumeration():
    couplings, fields = {("a", "b"): 0.5, ("b", "c"): -1.2}, {"a": 0.3, "d": -0.4}
    field = ising_field(couplings, fields, names=["d"])
    assert field.names == ("d", "a", "b", "c")
    states = np.array(list(itertools.product((-1, 1), repeat=4)))
    d, a, b, c = states.T
    weights = np.exp(0.5 * a * b - 1.2 * b * c + 0.3 * a - 0.4 * d)
    np.testing.assert_allclose(field.log_partition(), np.log(weights.sum()), rtol=1e-13)
    found = field.marginals()
    for name, column in zip("dabc", states.T):
        np.testing.assert_allclose(found[name][1], weights[column == 1].sum() / weights.sum(), rtol=1e-12)


def test_potts_counts_colourings_and_two_states_are_ising():
    graph = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]
    proper = potts_field(graph, 3, coupling=-700.0)  # agreement costs e^-700: only proper colourings count
    np.testing.assert_allclose(np.exp(float(proper.log_partition())), 3 * 2 * 1 * 2, rtol=1e-12)
    potts, ising = potts_field(graph, 2, coupling=1.4), ising_field(graph, coupling=0.7)
    shift = 0.7 * len(graph)  # [x = y] = (1 + s t) / 2
    np.testing.assert_allclose(potts.log_partition(), float(ising.log_partition()) + shift, rtol=1e-13)
    tilted = potts_field([("a", "b")], 3, {"a": [0.0, 1.0, 2.0]}, coupling=0.0)
    weights = np.exp([0.0, 1.0, 2.0])
    np.testing.assert_allclose(list(tilted.marginals()["a"].values()), weights / weights.sum(), rtol=1e-12)


def test_boltzmann_machine_by_enumeration_and_as_spins():
    rng = np.random.default_rng(0)
    upper = np.triu(rng.normal(size=(5, 5)), 1)
    weights, biases = upper + upper.T, rng.normal(size=5)
    machine = boltzmann_machine(weights, biases)
    x = np.array(list(itertools.product((0, 1), repeat=5)))
    density = np.exp(np.einsum("ni,ij,nj->n", x, weights, x) / 2 + x @ biases)
    np.testing.assert_allclose(machine.log_partition(), np.log(density.sum()), rtol=1e-13)
    found = machine.marginals()
    for i in range(5):
        np.testing.assert_allclose(found[f"x{i}"][1], density[x[:, i] == 1].sum() / density.sum(), rtol=1e-12)
    pairs = {(f"x{i}", f"x{j}"): weights[i, j] / 4 for i, j in itertools.combinations(range(5), 2)}
    fields = {f"x{i}": biases[i] / 2 + weights[i].sum() / 4 for i in range(5)}
    spins = ising_field(pairs, fields).marginals()
    np.testing.assert_allclose([spins[f"x{i}"][1] for i in range(5)], [found[f"x{i}"][1] for i in range(5)])


def test_grids():
    assert set(grid_edges(2, 2)) == {
        ("x0_0", "x0_1"), ("x0_0", "x1_0"), ("x0_1", "x1_1"), ("x1_0", "x1_1"),
    }  # fmt: skip
    edges = grid_edges(4, 5, periodic=True)
    assert len({frozenset(e) for e in edges}) == len(edges) == 40


def test_a_torus_against_enumeration_and_its_high_temperature_series():
    """The series begins with the shortest loops of a 4 x 4 torus: 16 squares and 8 that wind around it."""
    field = ising_field(grid_edges(4, 4, periodic=True), coupling=0.0)
    np.testing.assert_allclose(field.log_partition(), 16 * np.log(2), rtol=1e-14)
    warm = ising_field(grid_edges(4, 4, periodic=True), coupling=0.2)
    t = np.tanh(0.2)
    states = np.array(list(itertools.product((-1.0, 1.0), repeat=16))).reshape(-1, 4, 4)
    pairs = (states * np.roll(states, 1, 1)).sum((1, 2)) + (states * np.roll(states, 1, 2)).sum((1, 2))
    np.testing.assert_allclose(warm.log_partition(), np.log(np.exp(0.2 * pairs).sum()), rtol=1e-13)
    leading = 16 * np.log(2) + 32 * np.log(np.cosh(0.2)) + np.log1p((16 + 8) * t**4)  # squares and windings
    assert abs(float(warm.log_partition()) - leading) < 0.02


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="`edges` must be pairs of two different names"):
        ising_field([("a", "a")])
    with pytest.raises(ValueError, match="`edges` must be each pair once"):
        ising_field([("a", "b"), ("b", "a")])
    with pytest.raises(ValueError, match=r"`fields` must be about variables among .* got \['z'\]"):
        ising_field([("a", "b")], {"z": 1.0})
    with pytest.raises(ValueError, match="finite"):
        ising_field({("a", "b"): np.nan})
    with pytest.raises(ValueError, match="`num_states` must be a whole number of at least 2"):
        potts_field([("a", "b")], 1)
    with pytest.raises(ValueError, match=r"`fields\['a'\]` must be 3 numbers"):
        potts_field([("a", "b")], 3, {"a": [0.0]})
    with pytest.raises(ValueError, match="`weights` must be symmetric, with zeros on the diagonal"):
        boltzmann_machine([[0.0, 1.0], [2.0, 0.0]])
    with pytest.raises(ValueError, match="`biases` must be 2 numbers"):
        boltzmann_machine(np.zeros((2, 2)), [1.0])
    with pytest.raises(ValueError, match="at least 3 x 3"):
        grid_edges(2, 5, periodic=True)
