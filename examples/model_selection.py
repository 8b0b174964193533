"""Choosing a degree: folds, curves, the one-standard-error rule, bias and variance, and a promise kept."""

import jax.random as jr
import numpy as np
from sklearn.model_selection import KFold, train_test_split

from tractable.supervised import conformal_interval, grid_search
from tractable.supervised.selection.bias_variance import bias_variance_curve
from tractable.supervised.selection.validation import leave_one_out


def polynomial(degree: int):
    """The learner of least squares on the powers up to `degree`."""

    def fit(X, y):
        weights = np.linalg.lstsq(np.vander(X[:, 0], degree + 1), y, rcond=None)[0]
        return lambda new: np.vander(new[:, 0], degree + 1) @ weights

    return fit


def noisy_sinusoid(key, num_rows: int = 25):
    key_x, key_noise = jr.split(key)
    x = np.asarray(jr.uniform(key_x, (num_rows, 1)))
    return x, np.sin(2 * np.pi * x[:, 0]) + 0.3 * np.asarray(jr.normal(key_noise, (num_rows,)))


def main() -> None:
    X, y = noisy_sinusoid(jr.key(0), 60)
    degrees = list(range(1, 10))
    search = grid_search(polynomial, {"degree": degrees}, X, y, KFold(10, shuffle=True, random_state=1))
    print(search, end="\n\n")
    assert 3 <= search.best["degree"] <= 7
    assert search.simplest["degree"] <= search.best["degree"]
    print(leave_one_out(polynomial(search.best["degree"]), X, y), end="\n\n")

    points = np.linspace(0.05, 0.95, 40)[:, None]
    truth = np.sin(2 * np.pi * points[:, 0])
    parts = bias_variance_curve(polynomial, degrees, noisy_sinusoid, points, truth, key=jr.key(2), noise=0.09)
    print(parts, end="\n\n")
    assert parts.mean_squared_bias[0] > 10 * parts.mean_squared_bias[4]
    assert parts.mean_variance[-1] > 2 * parts.mean_variance[2]

    X, y = noisy_sinusoid(jr.key(3), 2000)
    train, held = train_test_split(np.arange(2000), test_size=0.5, random_state=4)
    fitted = polynomial(1)(X[train], y[train])  # too simple a model, and yet:
    calibration, new = held[:200], held[200:]
    low, high = conformal_interval(y[calibration], fitted(X[calibration]), fitted(X[new]), 0.9)
    share = ((low <= y[new]) & (y[new] <= high)).mean()
    print(f"{share:.1%} of new targets lie in the conformal intervals of 90%")
    assert abs(share - 0.9) < 0.06


if __name__ == "__main__":
    main()
