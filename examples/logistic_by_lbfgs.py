"""Logistic regression three ways: L-BFGS and Newton on the whole sum, stochastic gradients on batches."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.optim import LBFGS, GradientDescent, Newton, minimise
from tractable.optim.autodiff import check_gradient
from tractable.optim.schedules import check_schedule, inverse_time
from tractable.optim.stochastic import minimise_batches


def make_rows(num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    features = np.column_stack([np.ones(num_rows), rng.normal(size=(num_rows, 4))])
    log_odds = features @ [-0.5, 1.0, -2.0, 0.0, 0.5]
    return features, (log_odds + rng.logistic(size=num_rows) > 0).astype(float)


def row_loss(w, row):
    x, label = row
    return jnp.logaddexp(0.0, x @ w) - label * (x @ w)


def loss(w, features, labels):
    z = features @ w
    return jnp.mean(jnp.logaddexp(0.0, z) - labels * z)


def slope(w, features, labels):
    """The gradient by hand: X^T (p - y) / n."""
    return features.T @ (1 / (1 + jnp.exp(-features @ w)) - labels) / len(labels)


def main() -> None:
    rows = make_rows(2000)
    print(check_gradient(loss, np.zeros(5), slope, args=rows))

    by_lbfgs = minimise(loss, np.zeros(5), LBFGS(), args=rows, tol=1e-10)
    by_newton = minimise(loss, np.zeros(5), Newton(), args=rows, tol=1e-10)
    print(by_lbfgs, by_newton, sep="\n")

    schedule = inverse_time(40.0, 20.0)  # a_t = 40/(t + 20)
    print(check_schedule(schedule))
    by_batches = minimise_batches(
        row_loss, np.zeros(5), rows, GradientDescent(schedule), key=jr.key(0), batch=50, epochs=30
    )
    print(by_batches, np.asarray(by_batches.state), sep="\n")

    assert by_lbfgs.status.ok
    assert np.allclose(by_lbfgs.state, by_newton.state, atol=1e-7)
    assert np.abs(slope(by_lbfgs.state, *rows)).max() < 1e-9
    assert np.allclose(by_batches.state, by_lbfgs.state, atol=0.02)


if __name__ == "__main__":
    main()
