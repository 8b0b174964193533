"""A noisy sinusoid by Gaussian bumps: the predictive band, and where its two parts come from."""

import numpy as np

from tractable.estimators.bayes_linear import BayesianLinearRegressor
from tractable.supervised import GaussianBumps


def main() -> None:
    random = np.random.default_rng(0)
    x = np.concatenate([random.uniform(0.0, 0.4, 25), random.uniform(0.8, 1.0, 15)])  # a gap in the middle
    y = np.sin(2 * np.pi * x) + 0.2 * random.normal(size=len(x))
    basis = GaussianBumps(np.linspace(0, 1, 12), 0.12)
    model = BayesianLinearRegressor(basis=basis).fit(x[:, None], y)
    print(model.model_)

    grid = np.linspace(0, 1, 101)[:, None]
    truth = np.sin(2 * np.pi * grid[:, 0])
    parts = model.predict_uncertainty(grid)
    lower, upper = model.predict_interval(grid, 0.95)
    print(f"{'x':>6}{'mean':>9}{'noise':>9}{'weights':>9}{'total':>9}")
    for k in range(0, 101, 20):
        row = (
            model.predict(grid)[k],
            parts.aleatoric[k] ** 0.5,
            parts.epistemic[k] ** 0.5,
            parts.total[k] ** 0.5,
        )
        print(f"{grid[k, 0]:>6.2f}" + "".join(f"{float(value):>9.3f}" for value in row))

    # the parts add to the variance of the prediction; noise is the same everywhere, ignorance is in the gap
    np.testing.assert_allclose(parts.total, model.predict_dist(grid).variance, rtol=1e-10)
    seen, gap = np.abs(grid[:, 0] - 0.2) < 0.15, np.abs(grid[:, 0] - 0.6) < 0.1
    assert np.asarray(parts.epistemic)[gap].min() > 3 * np.asarray(parts.epistemic)[seen].max()
    assert 0.1 < 1 / np.sqrt(model.noise_precision_) < 0.3
    assert ((lower < truth) & (truth < upper)).mean() > 0.9

    # more data settle the weights, not the noise
    for _ in range(3):
        more = random.uniform(size=500)
        model.partial_fit(more[:, None], np.sin(2 * np.pi * more) + 0.2 * random.normal(size=500))
    settled = model.predict_uncertainty(grid)
    assert float(settled.epistemic.max()) < 0.05 * float(np.asarray(parts.epistemic).max())
    assert abs(1 / np.sqrt(model.noise_precision_) - 0.2) < 0.02


if __name__ == "__main__":
    main()
