"""Capsules: the worked example, loops in NumPy, mixtures of Gaussians, viewpoints never seen in training."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.latent import GaussianMixture
from tractable.neural import CapsuleClassifier, CapsuleLayer, dynamic_routing, em_routing, squash, train
from tractable.neural.capsules.layers import PrimaryCapsules
from tractable.neural.capsules.routing import COST_CONSTANT, capsule_m_step, inverse_temperatures
from tractable.neural.capsules.scenes import posed_scenes
from tractable.neural.losses import cross_entropy, margin, spread
from tractable.neural.training import predict_rows
from tractable.optim import Adam

VOTES = np.array([[0.0, 1.0], [0.2, 3.0], [0.1, -2.0]])[:, :, None]


def random_votes(n=12, m=3, h=4, seed=0):
    numbers = np.random.default_rng(seed)
    centres = 3 * numbers.normal(size=(2, h))
    votes = centres[np.arange(n) % 2][:, None] + numbers.normal(size=(n, m, h))
    return votes, numbers.uniform(0.2, 1.0, n), numbers.dirichlet(np.ones(m), n)


def log_normal(x, mean, variance):
    return -0.5 * ((x - mean) ** 2 / variance + np.log(2 * np.pi * variance))


def test_worked_example_to_eight_digits():
    found = em_routing(VOTES, np.ones(3), inverse_temperatures=[1.0, 1.0])
    capsules, shares = found.trace[0], np.exp(found.trace[1])
    expected = [
        (capsules.poses[:, :, 0], [[0.1, 0.66666667], [0.10060405, 1.25363901]]),
        (capsules.variances[:, :, 0], [[0.00666667, 4.22222222], [0.00661728, 2.26179103]]),
        (capsules.cost[0], [-3.75797647, 1.08027119]),
        (capsules.activations, [[0.99149008, 0.47994297], [0.99976532, 0.72558609]]),
        (shares[0, :, 0], [0.96136509, 0.97907732, 0.99178175]),
        (shares[1, :, 1], [0.07676585, 0.04049056, 0.00376647]),
        (found.poses[:, 0], [0.10060405, 1.25363901]),
        (found.activations, [0.99976532, 0.72558609]),
    ]
    for value, wanted in expected:
        np.testing.assert_allclose(value, wanted, rtol=0, atol=6e-9)


def test_cost_is_the_length_of_the_description_up_to_the_exact_constant():
    votes, activations, shares = random_votes()
    zero = jnp.zeros(3)
    found = capsule_m_step(
        jnp.asarray(votes), jnp.log(shares), jnp.asarray(activations), zero, zero, 1.0, 1e-9
    )
    weights = shares * activations[:, None]
    nats = -log_normal(votes, np.asarray(found.poses), np.asarray(found.variances))
    np.testing.assert_allclose(found.mass, weights.sum(0), rtol=1e-12)
    length = (weights[:, :, None] * nats).sum((0, 2))
    np.testing.assert_allclose(found.cost + 4 * COST_CONSTANT * found.mass, length, rtol=1e-12)
    assert round(COST_CONSTANT, 7) == 1.4189385


def test_routing_of_common_votes_is_em_for_a_mixture_of_diagonal_gaussians():
    votes, activations, shares = random_votes(h=3)
    rows = votes[:, 0]
    common = np.repeat(rows[:, None], 3, axis=1)
    temperatures = inverse_temperatures(10, 0.3)
    found = em_routing(
        common, activations, shares=shares, inverse_temperatures=temperatures, threshold=2.0, floor=1e-12
    )
    mixture = GaussianMixture(np.ones(3) / 3, rows[:3], np.tile(np.eye(3), (3, 1, 1)), "diagonal", floor=0.0)
    for step in range(10):
        mixture = mixture.m_step(mixture.labelled_stats(rows, shares * activations[:, None]))
        chosen = np.asarray(found.trace[0].activations[step])
        covariances = np.asarray(mixture.covariances)
        np.testing.assert_allclose(found.trace[0].poses[step], mixture.means, rtol=1e-8, atol=1e-8)
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        np.testing.assert_allclose(found.trace[0].variances[step], variances, rtol=1e-8)
        mixture = GaussianMixture(chosen / chosen.sum(), mixture.means, covariances, "diagonal", floor=0.0)
        shares = np.asarray(mixture.responsibilities(rows))
        np.testing.assert_allclose(np.exp(found.trace[1][step]), shares, rtol=0, atol=1e-8)


@pytest.mark.parametrize("activation", [0.0, 1.0])
def test_ten_steps_stay_finite_for_equal_votes_far_votes_and_capsules_that_are_off(activation):
    far = jnp.full((6, 3, 5), 2.0, jnp.float32).at[5].set(1e6)

    def total(votes, activations):
        return em_routing(votes, activations, inverse_temperatures=(1.0,) * 10).activations.sum()

    for votes in (far.at[5].set(2.0), far):
        on = jnp.full(6, activation, jnp.float32)
        found = em_routing(votes, on, inverse_temperatures=(1.0,) * 10)
        np.testing.assert_allclose(np.asarray(found.shares).sum(1), 1, rtol=1e-5)
        leaves = jax.tree.leaves((found, jax.grad(total, argnums=(0, 1))(votes, on)))
        assert all(np.isfinite(leaf).all() for leaf in leaves)


def test_slopes_of_routing_are_those_of_differences():
    votes, activations, _ = random_votes(6, 3, 4)
    numbers = np.random.default_rng(1)
    along = numbers.normal(size=votes.shape), numbers.normal(size=6)

    @jax.jit
    def moved(t):
        found = em_routing(votes + t * along[0], activations + t * along[1], inverse_temperatures=(0.5,) * 3)
        return found.activations[0] + (found.poses**2).sum()

    wanted = (moved(1e-5) - moved(-1e-5)) / 2e-5
    np.testing.assert_allclose(jax.jit(jax.grad(moved))(0.0), wanted, rtol=1e-6)


def test_order_of_capsules_does_not_matter_and_a_single_one_takes_all():
    votes, activations, _ = random_votes()
    found = em_routing(votes, activations)
    lower, upper = np.array([*range(11, -1, -1)]), np.array([2, 0, 1])
    moved = em_routing(votes[lower][:, upper], activations[lower])
    np.testing.assert_allclose(moved.poses, found.poses[upper], rtol=1e-10)
    np.testing.assert_allclose(moved.shares, found.shares[lower][:, upper], atol=1e-12)
    alone = em_routing(votes[:, :1], activations)
    assert (np.asarray(alone.shares) == 1).all()
    np.testing.assert_allclose(alone.poses[0], np.average(votes[:, 0], axis=0, weights=activations))


def test_diagnostics_are_entropies_costs_and_log_densities():
    votes, activations, _ = random_votes()
    found = em_routing(votes, activations, inverse_temperatures=(0.2,) * 4)
    logs = np.asarray(found.trace[1])
    np.testing.assert_allclose(found.entropies, -(np.exp(logs) * logs).sum(-1), atol=1e-12)
    last = found.capsules
    agreement = log_normal(votes, np.asarray(last.poses), np.asarray(last.variances)).sum(-1)
    np.testing.assert_allclose(found.agreement, agreement, rtol=1e-10)
    np.testing.assert_array_equal(found.costs[-1], last.cost)


def test_dynamic_routing_is_the_loop_of_its_paper():
    predictions = np.random.default_rng(0).normal(size=(5, 3, 4))
    logits = np.zeros((5, 3))
    for _ in range(3):
        couplings = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        sums = np.einsum("nm,nmh->mh", couplings, predictions)
        length = np.linalg.norm(sums, axis=1, keepdims=True)
        outputs = length**2 / (1 + length**2) * sums / length
        logits = logits + np.einsum("nmh,mh->nm", predictions, outputs)
    found = dynamic_routing(predictions, num_steps=3)
    np.testing.assert_allclose(found.outputs, outputs, rtol=1e-10)
    np.testing.assert_allclose(found.couplings, couplings, rtol=1e-10)
    np.testing.assert_allclose(found.lengths, np.linalg.norm(outputs, axis=1), rtol=1e-10)
    assert (np.asarray(jax.jacobian(squash)(jnp.zeros(3))) == 0).all()


def test_votes_move_with_the_scene():
    layer = CapsuleLayer(4, 2, key=jr.key(0), dtype=jnp.float64)
    poses, places = jr.normal(jr.key(1), (8, 2, 3)), jr.normal(jr.key(2), (8, 2))
    votes = layer.votes(poses, places).reshape(8, 2, 2, 3)
    turn = jnp.array([[0.6, -0.8], [0.8, 0.6]])
    turned = layer.votes(turn @ poses, places @ turn.T).reshape(8, 2, 2, 3)
    np.testing.assert_allclose(turned, turn @ votes, atol=1e-12)
    shifted = layer.votes(poses, places + jnp.array([[5.0, -1.0]])).reshape(8, 2, 2, 3)
    np.testing.assert_allclose(
        shifted - votes, np.tile([[0, 0, 5.0], [0, 0, -1.0]], (8, 2, 1, 1)), atol=1e-12
    )
    # matrices belong to kinds: the second place has the same as the first
    np.testing.assert_allclose(votes[5, 1], poses[5] @ layer.weight[1, 1] + np.outer(places[5], [0, 0, 1]))


class PoseClassifier(eqx.Module):
    """The parts are given; classes are capsules that they vote for."""

    layer: CapsuleLayer

    def __call__(self, poses):
        return self.layer(poses, jnp.ones(poses.shape[0], poses.dtype)).activations


def accuracy(network, inputs, labels):
    return float((np.asarray(predict_rows(network, inputs)).argmax(1) == labels).mean())


class AgreementClassifier(eqx.Module):
    """Poses as vectors, learned predictions of the classes, routed by agreement."""

    weight: jax.Array

    def __call__(self, poses):
        return dynamic_routing(jnp.einsum("nd,nmdh->nmh", poses.reshape(4, 6), self.weight)).lengths


@pytest.mark.thorough
def test_routing_by_agreement_learns_by_the_margin_loss():
    seen = posed_scenes(400, seed=1)
    data = jnp.asarray(seen.poses, jnp.float32), jnp.asarray(seen.labels)
    start = AgreementClassifier(0.3 * jr.normal(jr.key(0), (4, 4, 6, 8), jnp.float32))
    run = train(start, data, margin, key=jr.key(1), method=Adam(1e-2), epochs=10, progress=False)
    assert accuracy(start, data[0], seen.labels) < 0.5
    assert accuracy(run.state, data[0], seen.labels) > 0.95
    assert run.trace[-1] < 0.2 * run.trace[0]


def test_pose_capsules_know_viewpoints_that_they_never_saw_and_a_plain_network_does_not():
    seen = posed_scenes(400, turns=(-0.8, 0.8), shifts=(-0.4, 0.4), seed=1)
    turned = posed_scenes(400, turns=(2.0, 4.2), shifts=(-0.6, 0.6), seed=2)
    poses, labels = jnp.asarray(seen.poses, jnp.float32), jnp.asarray(seen.labels)
    start = PoseClassifier(CapsuleLayer(4, 4, key=jr.key(0)))
    options = {"key": 1, "batch": 20, "method": Adam(2e-2)}
    network = train(start, (poses, labels), spread, epochs=25, progress=False, **options).state
    plain = eqx.nn.Sequential(
        [eqx.nn.Lambda(jnp.ravel), eqx.nn.MLP(24, 4, 64, 1, key=jr.key(0), dtype=jnp.float32)]
    )
    plain = train(plain, (poses, labels), cross_entropy, epochs=25, progress=False, **options).state
    far = turned.poses.astype(np.float32)
    assert accuracy(network, poses, seen.labels) > 0.97
    assert accuracy(plain, poses, seen.labels) > 0.97
    assert accuracy(network, far, turned.labels) > 0.95 > 0.5 > accuracy(plain, far, turned.labels)


@pytest.mark.thorough
def test_image_capsules_know_places_that_they_never_saw_and_a_plain_network_does_not():
    seen = posed_scenes(400, shifts=(-0.5, 0.0), size=12, seed=1)
    moved = posed_scenes(300, shifts=(0.2, 0.5), size=12, seed=3)
    images, labels = jnp.asarray(seen.images, jnp.float32), jnp.asarray(seen.labels)
    start = CapsuleClassifier(1, 4, num_types=4, key=jr.key(0))
    options = {"key": 2, "batch": 20}
    network = train(
        start, (images, labels), spread, epochs=30, method=Adam(1e-2), progress=False, **options
    ).state
    plain = eqx.nn.Sequential(
        [eqx.nn.Lambda(jnp.ravel), eqx.nn.MLP(144, 4, 64, 1, key=jr.key(0), dtype=jnp.float32)]
    )
    plain = train(plain, (images, labels), cross_entropy, epochs=20, progress=False, **options).state
    far = moved.images.astype(np.float32)
    assert accuracy(network, images, seen.labels) > 0.95
    assert accuracy(plain, images, seen.labels) > 0.95
    assert accuracy(network, far, moved.labels) > 0.8 > 0.5 > accuracy(plain, far, moved.labels)


def test_primary_capsules_name_their_places():
    primary = PrimaryCapsules(1, 2, key=jr.key(0), kernel=3, stride=2)
    poses, activations, places = primary(jnp.zeros((1, 5, 9), jnp.float32))
    assert poses.shape == (2 * 4 * 2, 2, 3)
    assert activations.shape == (16,)
    assert places[:4].tolist() == [
        [-1, -1],
        [-1, -1],
        [pytest.approx(-1 / 3), -1],
        [pytest.approx(-1 / 3), -1],
    ]
    assert places[-1].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"votes": np.zeros((3, 2))}, "`votes` must be of shape"),
        ({"votes": np.full((3, 2, 1), np.nan)}, "`votes` must be finite"),
        ({"activations": np.ones(2)}, "`activations` must be of shape"),
        ({"activations": np.full(3, 1.5)}, "`activations` must be between 0 and 1"),
        ({"floor": 0.0}, "`floor` must be positive"),
        ({"inverse_temperatures": []}, "`inverse_temperatures` must be at least one number"),
        ({"shares": -np.ones((3, 2))}, "`shares` must be zero or positive"),
    ],
)
@pytest.mark.cheap
def test_errors_name_the_argument(change, said):
    given = {"votes": VOTES, "activations": np.ones(3)} | change
    with pytest.raises(ValueError, match=said):
        em_routing(given.pop("votes"), given.pop("activations"), **given)
