"""Gaussian process regression: a prior, a posterior, hyperparameters by evidence, and a long series."""

import jax
import numpy as np

from tractable.estimators.gaussian_process import GaussianProcessRegressor
from tractable.gp.hyperparameters import default_process, fit_hyperparameters
from tractable.gp.regression import GaussianProcess
from tractable.gp.state_space import MarkovProcess
from tractable.kernels.stationary import RBF, Matern32


def main() -> None:
    # Worked by hand: k = exp(-d^2), two observations, noise variance 0.1.
    post = GaussianProcess(RBF(0.5**0.5), noise=0.1).posterior([0.0, 1.0], [0.0, 1.0])
    print(post, post.report, sep="\n")
    assert abs(float(post.latent([0.5]).mean[0]) - 0.5305618) < 1e-7
    assert abs(float(post.log_evidence) + 2.3856690) < 1e-7

    # Hyperparameters by evidence: the second column does not matter, and its length scale says so.
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    fit = fit_hyperparameters(default_process(X, y), X, y, num_restarts=2, key=jax.random.key(0))
    print(fit)
    lengths = np.asarray(fit.process.kernel.kernel.length_scale)
    assert lengths[1] > 5 * lengths[0]
    assert 0.05 < float(fit.process.noise.variance) ** 0.5 < 0.2

    # The same as an estimator, with intervals.
    model = GaussianProcessRegressor().fit(X, y)
    low, high = model.predict_interval(X, 0.9)
    assert 0.8 < np.mean((low <= y) & (y <= high)) <= 1.0

    # A Matern process on the line: the same numbers by a Kalman smoother, in linear time.
    x = np.sort(rng.uniform(0, 10, 500))
    series = GaussianProcess(Matern32(1.0), noise=0.01)
    targets = np.sin(x) + 0.1 * rng.normal(size=500)
    fast, dense = MarkovProcess(series).posterior(x, targets), series.posterior(x, targets)
    print(fast)
    assert abs(float(fast.log_evidence - dense.log_evidence)) < 1e-8


if __name__ == "__main__":
    main()
