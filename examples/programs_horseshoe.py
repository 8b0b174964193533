"""A horseshoe: coefficients are integrated given their scales, and the scales are sampled."""

import numpy as np

import tractable as tr
from tractable.distributions import HalfCauchy, HalfNormal, Normal


@tr.model
def sparse(X, y):
    noise = tr.sample("noise", HalfNormal(2.0))
    common = tr.sample("common", HalfCauchy(0.3))
    with tr.plate("column", X.shape[1]):
        own = tr.sample("own", HalfCauchy(1.0))
        slope = tr.sample("slope", Normal(0.0, common * own))
    with tr.plate("row", len(y)):
        tr.sample("y", Normal(X @ slope, noise), obs=y)


def log_noise(variance: float, squares: float, count: int) -> float:
    """The density of the logarithm of the variance, given all else."""
    return -0.5 * squares / variance - 0.5 * (count - 1) * np.log(variance) - variance / 8


def by_gibbs(X: np.ndarray, y: np.ndarray, num_draws: int = 6000) -> np.ndarray:
    """Draws of the slopes by Gibbs steps: scales are inverse gamma given helpers that are inverse gamma."""
    random, dim = np.random.default_rng(1), X.shape[1]
    inverse = lambda shape, scale: scale / random.gamma(shape, size=np.shape(scale))  # noqa: E731
    own, common, own_helper, common_helper, noise = np.ones(dim), 1.0, np.ones(dim), 1.0, 1.0
    kept = []
    for _ in range(num_draws):
        precision = X.T @ X / noise + np.diag(1 / (own * common))
        root = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, X.T @ y / noise)
        slope = mean + np.linalg.solve(root.T, random.normal(size=dim))
        own = inverse(1.0, 1 / own_helper + slope**2 / (2 * common))
        own_helper = inverse(1.0, 1 + 1 / own)
        common = float(inverse((dim + 1) / 2, 1 / common_helper + (slope**2 / own).sum() / 2))
        common_helper = float(inverse(1.0, 1 / 0.3**2 + 1 / common))
        squares = ((y - X @ slope) ** 2).sum()
        # the half-normal noise has no closed form: steps of Metropolis on its logarithm
        for _ in range(3):
            other = noise * np.exp(0.5 * random.normal())
            if np.log(random.random()) < log_noise(other, squares, len(y)) - log_noise(
                noise, squares, len(y)
            ):
                noise = other
        kept.append(slope)
    return np.array(kept[num_draws // 6 :])


def main() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(50, 10))
    truth = np.array([2.0, -1.5] + [0.0] * 8)
    y = X @ truth + 0.5 * random.normal(size=50)
    post = tr.infer(sparse, X, y, key=0)
    print(post.explain())
    print(post.summary(["slope", "noise"]))

    wanted = by_gibbs(X, y)
    found = post["slope"]
    blocks = wanted.reshape((25, -1, 10)).mean(1)
    chains = found.reshape((20, -1, 10)).mean(1)
    errors = np.hypot(blocks.std(0, ddof=1) / 5, chains.std(0, ddof=1) / np.sqrt(20))
    assert (post.explain().before, post.explain().after) == (22, 12)
    assert np.all(abs(found.mean((0, 1)) - wanted.mean(0)) < 4.5 * errors)
    assert np.all(abs(found.mean((0, 1))[2:]) < 0.15)  # what is nothing is shrunk


if __name__ == "__main__":
    main()
