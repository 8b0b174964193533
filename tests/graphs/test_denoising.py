"""Image denoising: exact where the image is narrow, and better than the noise where it is not."""

import itertools

import jax.random as jr
import numpy as np
import pytest

from tractable.core.iterate import Status
from tractable.graphs.denoising import IsingImage, denoise


def _letter(size=32):
    """A frame and a disc: smooth shapes of both colours."""
    r, c = np.mgrid[:size, :size]
    disc = (r - size / 2) ** 2 + (c - size / 2) ** 2 < (size / 4) ** 2
    frame = (np.minimum(r, c) < size // 8) | (np.maximum(r, c) >= size - size // 8)
    return np.where(disc | frame, 1.0, -1.0)


@pytest.fixture(scope="module")
def picture():
    clean = _letter()
    flipped = np.random.default_rng(0).uniform(size=clean.shape) < 0.1
    return clean, np.where(flipped, -clean, clean)


@pytest.fixture(scope="module")
def small():
    """A noisy 3 x 4 image with all of its 4096 restorations and their energies."""
    noisy = np.where(np.random.default_rng(1).uniform(size=(3, 4)) < 0.5, 1.0, -1.0)
    x = np.array(list(itertools.product((-1.0, 1.0), repeat=12))).reshape(-1, 3, 4)
    pairs = (x[:, 1:] * x[:, :-1]).sum((1, 2)) + (x[:, :, 1:] * x[:, :, :-1]).sum((1, 2))
    energy = 0.1 * x.sum((1, 2)) - 0.5 * pairs - 0.6 * (x * noisy).sum((1, 2))
    return IsingImage(noisy, 0.5, 0.6, 0.1), x, energy


@pytest.mark.parametrize("method", ["icm", "gibbs", "mean_field", "loopy", "cut"])
def test_ten_percent_of_flipped_pixels_are_mostly_restored(picture, method):
    """h = 0, beta = 1, eta = 2.1: the error falls."""
    clean, noisy = picture
    found = denoise(noisy, method, key=jr.key(0), coupling=1.0, attachment=2.1, bias=0.0)
    before, after = (noisy != clean).mean(), (np.asarray(found.image) != clean).mean()
    assert before > 0.08
    assert after < 0.5 * before
    assert found.status.ok
    assert found.method in repr(found)
    assert ("no image has less energy" if method == "cut" else found.status.sentence) in repr(found)


def test_no_energy_is_below_the_minimum_cut(picture):
    _, noisy = picture
    energies = {
        m: float(denoise(noisy, m, key=jr.key(1)).energy) for m in ("icm", "gibbs", "mean_field", "loopy")
    }
    least = float(denoise(noisy, "cut").energy)
    assert all(least <= value + 1e-9 for value in energies.values())
    assert least < energies["icm"] - 1.0  # ICM stops at a local minimum here


def test_minimum_cut_is_the_least_energy_of_all(small):
    model, x, energy = small
    found = denoise(model, "cut")
    np.testing.assert_allclose(found.energy, energy.min(), rtol=1e-13)
    np.testing.assert_array_equal(found.image, x[energy.argmin()])
    np.testing.assert_allclose(model.energy(x[17]), energy[17], rtol=1e-13)


def test_the_same_posterior_as_a_field(small):
    model, x, energy = small
    field, weights = model.field(), np.exp(-energy)
    np.testing.assert_allclose(field.log_partition(), np.log(weights.sum()), rtol=1e-13)
    exact = (weights[:, None, None] * (x > 0)).sum(0) / weights.sum()
    found = field.marginals()
    got = [[found[f"x{r}_{c}"][1] for c in range(4)] for r in range(3)]
    np.testing.assert_allclose(got, exact, rtol=1e-12)


def test_gibbs_probabilities_are_right(small):
    model, x, energy = small
    weights = np.exp(-energy)
    exact = (weights[:, None, None] * (x > 0)).sum(0) / weights.sum()
    runs = [denoise(model, "gibbs", key=key, max_steps=1500).probability for key in jr.split(jr.key(2), 6)]
    mean, error = np.mean(runs, 0), np.std(runs, 0, ddof=1) / np.sqrt(6)
    # six runs estimate their own error: Student's t with five degrees of freedom has heavier tails
    assert (np.abs(mean - exact) < 9 * error + 1e-9).all()
    assert np.abs(mean - exact).max() < 0.02


def test_mean_field_bound_rises_below_the_evidence(small):
    model, _, energy = small
    found = denoise(model, "mean_field")
    values = found.run.values
    assert (np.diff(values) >= -1e-12).all()
    assert values[-1] <= np.log(np.exp(-energy).sum())
    m = 2 * np.asarray(found.probability) - 1
    padded = np.pad(m, 1)
    around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    np.testing.assert_allclose(m, np.tanh(0.6 * np.asarray(model.observed) - 0.1 + 0.5 * around), atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 9), (9, 1)])
def test_belief_propagation_is_exact_on_a_line(shape):
    noisy = np.where(np.random.default_rng(3).uniform(size=shape) < 0.5, 1.0, -1.0)
    model = IsingImage(noisy, 0.8, 0.5, 0.2)
    found = denoise(model, "loopy")
    exact = model.field().marginals()
    sites = [exact[f"x{r}_{c}"][1] for r in range(shape[0]) for c in range(shape[1])]
    np.testing.assert_allclose(np.asarray(found.probability).reshape(-1), sites, rtol=1e-7)
    assert found.status is Status.converged


def test_belief_propagation_equals_the_general_one_on_a_grid(small):
    model, _, _ = small
    ours = denoise(model, "loopy", damping=0.2, tol=1e-12, max_steps=2000)
    general = model.field().loopy(damping=0.2, tol=1e-12)
    got = [[float(general.marginal(f"x{r}_{c}").probs[1]) for c in range(4)] for r in range(3)]
    np.testing.assert_allclose(ours.probability, got, atol=1e-9)


def test_icm_never_raises_the_energy_and_truth_values_are_pixels(picture):
    _, noisy = picture
    found = denoise(noisy > 0)
    values = found.run.values
    assert (np.diff(values) <= 0).all()
    np.testing.assert_array_equal(found.image, denoise(noisy).image)
    exhausted = denoise(noisy, "loopy", max_steps=1)
    assert exhausted.status is Status.exhausted


def test_bad_input_is_named():
    with pytest.raises(
        ValueError, match=r"`image` must be made of -1 and 1, or of truth values; got 0.0 at index"
    ):
        denoise(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="`image` must be a matrix of pixels"):
        denoise(np.ones(3))
    with pytest.raises(ValueError, match="`method` must be one of 'icm'"):
        denoise(np.ones((2, 2)), "magic")
    with pytest.raises(ValueError, match="`key` must be given for method 'gibbs'"):
        denoise(np.ones((2, 2)), "gibbs")
    with pytest.raises(ValueError, match="`damping` must be from 0 to 1"):
        denoise(np.ones((2, 2)), "loopy", damping=1.0)
    with pytest.raises(ValueError, match="`coupling` must be zero or positive for method 'cut'"):
        denoise(np.ones((2, 2)), "cut", coupling=-1.0)
