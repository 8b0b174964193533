"""A Gaussian process with 100 latent values and three unknown scales, written with its latents.

The values are integrated in the covariance of the readings, the scales by adaptive importance sampling.
"""

import jax.numpy as jnp
import numpy as np
from scipy.linalg import cho_factor, cho_solve

import tractable as tr
from tractable.distributions import Gaussian, HalfNormal, LogNormal, Normal


@tr.model
def process(x, y=None):
    height = tr.sample("height", HalfNormal(2.0))
    length = tr.sample("length", LogNormal(0.0, 1.0))
    noise = tr.sample("noise", HalfNormal(1.0))
    away = (x[:, None] - x[None, :]) / length
    f = tr.sample("f", Gaussian(jnp.zeros(len(x)), height**2 * jnp.exp(-0.5 * away**2)))
    with tr.plate("row", len(x)):
        tr.sample("y", Normal(f, noise), obs=y)


def marginal(x: np.ndarray, y: np.ndarray, logs: np.ndarray) -> tuple[float, np.ndarray]:
    """The log-density of the logarithms of the scales, and the mean of the function: plain NumPy."""
    height, length, noise = np.exp(logs)
    kernel = height**2 * np.exp(-0.5 * ((x[:, None] - x[None, :]) / length) ** 2)
    factor = cho_factor(kernel + noise**2 * np.eye(len(x)), lower=True)
    solved = cho_solve(factor, y)
    value = -0.5 * y @ solved - np.log(np.diag(factor[0])).sum() - 0.5 * len(x) * np.log(2 * np.pi)
    prior = np.log(2) - 0.5 * (height / 2) ** 2 - np.log(2) - 0.5 * np.log(2 * np.pi)
    prior += -0.5 * np.log(length) ** 2 - np.log(length) - 0.5 * np.log(2 * np.pi)
    prior += np.log(2) - 0.5 * noise**2 - 0.5 * np.log(2 * np.pi)
    return value + prior + logs.sum(), kernel @ solved


def by_quadrature(x: np.ndarray, y: np.ndarray, centre: np.ndarray, root: np.ndarray) -> tuple:
    """The evidence, the mean scales and the mean function on a lattice in three dimensions."""
    axis = np.linspace(-4.5, 4.5, 10)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3) @ root.T + centre
    found = [marginal(x, y, point) for point in points]
    values = np.array([value for value, _ in found])
    masses = np.exp(values - values.max())
    cell = np.log((axis[1] - axis[0]) ** 3 * np.linalg.det(root))
    mean = masses @ np.array([each for _, each in found]) / masses.sum()
    return values.max() + np.log(masses.sum()) + cell, masses @ np.exp(points) / masses.sum(), mean


def main() -> None:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 10.0, 100))
    y = np.sin(x) + 0.3 * rng.normal(size=100)

    post = tr.infer(process, x, y=y, key=0)
    print(post.explain())
    print(post.verdict)
    names = ["height", "length", "noise"]
    print(post.summary(names))
    assert (post.explain().before, post.explain().after) == (103, 3)
    assert post.verdict.ok

    draws = np.log(np.stack([post[name].ravel() for name in names], 1))
    evidence, scales, mean = by_quadrature(x, y, draws.mean(0), np.linalg.cholesky(np.cov(draws.T)))
    error = float(post.log_evidence.standard_error)
    print(f"log-evidence {float(post.log_evidence.value):.3f} ± {error:.3f}; by quadrature {evidence:.3f}")
    assert abs(float(post.log_evidence.value) - evidence) < 4 * error + 0.005
    for name, want in zip(names, scales):
        assert abs(post[name].mean() - want) < 5 * post[name].std() / np.sqrt(post[name].size)
    function = post["f"].reshape(-1, 100)
    assert np.max(np.abs(function.mean(0) - mean) / (function.std(0) / np.sqrt(len(function)))) < 5


if __name__ == "__main__":
    main()
