"""Linear regression: digits, dependent columns, ridge by evidence, an outlier, and rows that arrive one by
one."""

import numpy as np

from tractable import datasets
from tractable.supervised import (
    GaussianBumps,
    choose_penalty,
    ordinary_least_squares,
    recursive_least_squares,
    ridge,
    robust_regression,
)
from tractable.supervised.basis import Polynomial
from tractable.supervised.linear.recursive import ridge_prior


def main() -> None:
    # a polynomial of degree ten, on which solvers without refinement lose half of the digits
    x = np.arange(21.0)
    y = sum(x**j for j in range(11))
    model = ordinary_least_squares(x, y, basis=Polynomial(10))
    print(model)

    # ridge on a noisy sinusoid with 24 bumps: the penalty by evidence
    table = datasets.noisy_sinusoid(60, seed=1)
    bumps = GaussianBumps(np.linspace(0, 1, 24), 0.1)
    penalty = choose_penalty(bumps(table.features), table.target, criterion="evidence")
    curve = ridge(table.features, table.target, penalty, basis=bumps, intercept=True)
    grid = np.linspace(0.05, 0.95, 50)
    error = np.abs(curve.predict(grid) - np.sin(2 * np.pi * grid)).max()
    print(f"penalty {penalty:.3g}, largest error of the curve {error:.2f}")

    # one outlier
    line = datasets.noisy_line(50, seed=2)
    spoilt = line.target + np.where(np.arange(50) == 7, 500.0, 0.0)
    slopes = {"squares": float(ordinary_least_squares(line.features, spoilt).coefficients[0])}
    for loss in ("huber", "absolute", "student"):
        slopes[loss] = float(robust_regression(line.features, spoilt, loss=loss).coefficients[0])
    print({name: round(slope, 2) for name, slope in slopes.items()})

    # row by row, and all at once
    design = np.column_stack([np.ones(50), line.features])
    run = recursive_least_squares(design, line.target, ridge_prior(2, 0.1), form="joseph")
    batch = ridge(design, line.target, 0.1, intercept=False)

    assert "Full rank" in repr(model)
    assert np.abs(model.coefficients - 1).max() < 1e-13
    assert error < 0.5
    assert all(abs(slopes[loss] - 2) < 0.5 for loss in ("huber", "absolute", "student"))
    assert abs(slopes["squares"] - 2) > 2
    assert np.abs(run.state.mean - batch.coefficients).max() < 1e-13


if __name__ == "__main__":
    main()
