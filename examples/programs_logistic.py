"""Bayesian logistic regression as a program, against quadrature on a dense grid."""

import numpy as np

import tractable as tr
from tractable.distributions import Bernoulli, Normal


@tr.model
def classes(X, y=None):
    intercept = tr.sample("intercept", Normal(0.0, 2.0))
    slopes = tr.sample("slopes", Normal(np.zeros(2), 2.0))
    with tr.plate("row", len(X)):
        tr.sample("y", Bernoulli(logits=intercept + X @ slopes), obs=y)


def by_grid(X: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The log-evidence, means and deviations by the trapezoidal rule, which is exact to rounding here."""
    axis = np.linspace(-5, 6, 51)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape((-1, 3))
    odds = points @ np.column_stack([np.ones(len(X)), X]).T
    logs = odds @ y - np.logaddexp(0, odds).sum(1)
    logs += -0.5 * ((points / 2) ** 2).sum(1) - 3 * np.log(2) - 1.5 * np.log(2 * np.pi)
    total = np.logaddexp.reduce(logs) + 3 * np.log(axis[1] - axis[0])
    masses = np.exp(logs - np.logaddexp.reduce(logs))
    mean = masses @ points
    return float(total), mean, np.sqrt(masses @ (points - mean) ** 2)


def main() -> None:
    random = np.random.default_rng(3)
    X = random.normal(size=(60, 2))
    y = (random.random(60) < 1 / (1 + np.exp(-(0.5 + X @ np.array([1.5, -1.0]))))).astype(int)
    post = tr.infer(classes, X, y, key=0)
    print(post.explain())
    print(post.summary())

    log_evidence, mean, deviation = by_grid(X, y)
    found = np.concatenate([post["intercept"][..., None], post["slopes"]], -1)
    assert post.verdict.ok
    errors = deviation / np.sqrt(found[..., 0].size / 4)  # draws that hang together count less
    assert np.all(abs(found.mean((0, 1)) - mean) < 4 * errors)
    assert np.all(abs(found.std((0, 1)) - deviation) < 4 * errors)
    evidence = post.log_evidence
    assert abs(float(evidence.value) - log_evidence) < max(4 * float(evidence.standard_error), 1e-6)
    new = post.predict(X=np.array([[2.0, -2.0], [-2.0, 2.0]]), key=1)
    first, second = new.mean["y"]
    print(f"chances of two new rows: {first:.2f}, {second:.2f}")
    assert first > 0.9 > 0.1 > second


if __name__ == "__main__":
    main()
