"""Prices with noise that grows: boosted laws, honest intervals, and a linear regression made honest."""

import numpy as np

from tractable.estimators import (
    BayesianLinearRegressor,
    CalibratedRegressor,
    DistributionBoostingRegressor,
)


def prices(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Income, age and distance to the sea; noise in proportion to the price, more of it near the sea."""
    draw = np.random.default_rng(seed)
    income, age = np.exp(draw.normal(1.2, 0.4, count)), draw.integers(1, 50, count)
    sea = draw.exponential(1.0, count)
    level = 0.4 * income + np.exp(-sea) + 0.005 * age
    return np.column_stack([income, age, sea]), level * np.exp(
        (0.1 + 0.2 * np.exp(-sea)) * draw.normal(size=count)
    )


def main() -> None:
    X, y = prices(800, 0)
    new, paid = prices(2000, 1)
    near = new[:, 2] < 0.3

    boosted = DistributionBoostingRegressor(learning_rate=0.1, random_state=0).fit(X, y)
    print(boosted.model_.verdict)
    line = CalibratedRegressor(BayesianLinearRegressor("evidence")).fit(X, y)
    print(line.map_.verdict)

    covered = {}
    for name, model in (("boosted", boosted), ("line, calibrated", line)):
        low, high = model.predict_interval(new, 0.9)
        inside = (low <= paid) & (paid <= high)
        covered[name] = inside.mean(), inside[near].mean()
        told = f"covers {inside.mean():.3f}, near the sea {inside[near].mean():.3f}"
        print(f"{name:18} log-score {model.log_score(new, paid):.3f}; {told}")

    assert boosted.log_score(new, paid) > line.log_score(new, paid) + 0.15
    assert all(abs(everywhere - 0.9) < 0.035 for everywhere, _ in covered.values())
    assert (
        covered["boosted"][1] > covered["line, calibrated"][1]
    )  # calibration is on average, not in each place

    low, high = line.conformal_interval(new[:200], 0.9)
    print(f"cross-conformal intervals cover {np.mean((low <= paid[:200]) & (paid[:200] <= high)):.3f} of 200")


if __name__ == "__main__":
    main()
