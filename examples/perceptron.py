"""The perceptron: mistakes, their bound with its proof line by line, and the kernel form."""

import numpy as np

from tractable.kernels.nonstationary import Polynomial
from tractable.supervised import KernelPerceptron, Perceptron
from tractable.supervised.perceptrons.perceptron import minimise_zero_one, mistake_trace
from tractable.supervised.perceptrons.separability import (
    augmented,
    best_direction,
    margin,
    mistake_bound,
    radius,
    separability,
)


def main() -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(40, 2))
    X = X[np.abs(X @ [0.8, 0.6]) > 0.2]
    y = np.where(X @ [0.8, 0.6] > 0, 1, -1)
    print(separability(X, y))
    fitted = Perceptron.fit(X, y)
    print(fitted, "mistakes by epoch:", fitted.mistakes)

    rows = augmented(X)  # the bias as a column of ones
    u = best_direction(rows, y)
    bound = mistake_bound(rows, y)
    print(f"R = {radius(rows):.3f}, delta = {margin(rows, y, u):.3f}: at most {bound:.1f} mistakes")
    trace = mistake_trace(rows, y, u)
    print("       k   k delta    u.w   |w|^2   k R^2")
    print(np.array2string(trace[:5], precision=3, suppress_small=True))
    assert fitted.num_updates <= bound
    assert (trace[:, 1] <= trace[:, 2] + 1e-9).all()
    assert (trace[:, 3] <= trace[:, 4] + 1e-9).all()

    square, even = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1, 1, -1, -1])
    print(
        "\nExclusive or:",
        separability(square, even),
        "; best line errs",
        minimise_zero_one(square, even)[0],
        "time",
    )
    curved = KernelPerceptron.fit(square, even, Polynomial(2, 1.0))
    print(curved)
    assert (curved.predict(square) == even).all()


if __name__ == "__main__":
    main()
