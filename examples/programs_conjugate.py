"""Conjugate programs: a coin, and a regression with unknown noise, are solved by closed forms."""

import numpy as np
from scipy.special import betaln, gammaln

import tractable as tr
from tractable.distributions import Bernoulli, Beta, InverseGamma, Normal


@tr.model
def coin(tosses):
    bias = tr.sample("bias", Beta(2.0, 3.0))
    with tr.plate("toss", len(tosses)):
        tr.sample("tosses", Bernoulli(bias), obs=tosses)


@tr.model
def line(X, y):
    variance = tr.sample("variance", InverseGamma(3.0, 2.0))
    slopes = tr.sample("slopes", Normal(np.zeros(X.shape[1]), 5.0 * variance**0.5))
    with tr.plate("row", len(y)):
        tr.sample("y", Normal(X @ slopes, variance**0.5), obs=y)


def evidence_of_line(X: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """The log-evidence and the mean of the slopes, by dense algebra."""
    cov = np.eye(len(y)) + 25.0 * X @ X.T  # of y, as a multiple of the variance
    scale = 2.0 + 0.5 * y @ np.linalg.solve(cov, y)
    shape = 3.0 + 0.5 * len(y)
    value = 3.0 * np.log(2.0) - shape * np.log(scale) + gammaln(shape) - gammaln(3.0)
    value -= 0.5 * np.linalg.slogdet(cov)[1] + 0.5 * len(y) * np.log(2 * np.pi)
    return float(value), 25.0 * X.T @ np.linalg.solve(cov, y)


def main() -> None:
    random = np.random.default_rng(0)
    tosses = (random.random(40) < 0.7).astype(int)
    heads = int(tosses.sum())
    post = tr.infer(coin, tosses, key=0)
    print(post.explain())
    assert post.explain().after == 0
    assert abs(float(post.log_evidence.value) - (betaln(2 + heads, 43 - heads) - betaln(2, 3))) < 1e-9
    exact = (2 + heads) / 45
    assert abs(post["bias"].mean() - exact) < 4 * np.sqrt(exact * (1 - exact) / 46 / post["bias"].size)

    X = random.normal(size=(60, 3))
    y = X @ np.array([1.0, -2.0, 0.5]) + 0.8 * random.normal(size=60)
    post = tr.infer(line, X, y, key=0)
    print(post.explain())
    value, mean = evidence_of_line(X, y)
    assert post.explain().after == 0
    assert abs(float(post.log_evidence.value) - value) < 1e-8
    errors = post["slopes"].std((0, 1)) / np.sqrt(post["slopes"][..., 0].size)
    assert np.all(abs(post["slopes"].mean((0, 1)) - mean) < 4 * errors)


if __name__ == "__main__":
    main()
