"""Gaussian mixtures beside scikit-learn; `benchmarks.latent` finds these workloads by the name.

Both libraries take the same start and the same number of steps; the objective is the mean log-density that
the last step began with (for the variational mixture, the mean log-density of the fit).
"""

import warnings
from collections.abc import Callable

import numpy as np

from benchmarks._children import Workload

ROWS, COLUMNS, COMPONENTS, STEPS = 100_000, 20, 20, 10


def correlated() -> np.ndarray:
    """Overlapping groups of one tilted shape."""
    numbers = np.random.default_rng(0)
    centres = 2 * numbers.normal(size=(COMPONENTS, COLUMNS))
    tilt = np.eye(COLUMNS) + 0.3 * numbers.normal(size=(COLUMNS, COLUMNS))
    return centres[numbers.integers(COMPONENTS, size=ROWS)] + numbers.normal(size=(ROWS, COLUMNS)) @ tilt


def near_centres() -> np.ndarray:
    """Means to begin with: beside the true ones, so that no component of either library collapses."""
    centres = 2 * np.random.default_rng(0).normal(size=(COMPONENTS, COLUMNS))
    return centres + 0.5 * np.random.default_rng(1).normal(size=centres.shape)


def ours(kind: str) -> Callable[[], Callable[[np.ndarray], float]]:
    """EM from wide covariances near the centres."""

    def load() -> Callable[[np.ndarray], float]:
        from tractable.inference.expectation_maximisation.em import EM
        from tractable.latent.mixtures.gaussian import GaussianMixture

        def fit(X: np.ndarray) -> float:
            cov = np.tile(8 * np.eye(COLUMNS), (COMPONENTS, 1, 1))
            start = GaussianMixture(np.full(COMPONENTS, 1 / COMPONENTS), near_centres(), cov, kind)
            return float(EM(tol=0.0, max_steps=STEPS).fit(start, X).values[-1]) / len(X)

        return fit

    return load


def theirs(kind: str) -> Callable[[], Callable[[np.ndarray], float]]:
    """The same steps of scikit-learn."""

    def load() -> Callable[[np.ndarray], float]:
        from sklearn.mixture import GaussianMixture

        shapes = {"full": np.tile(np.eye(COLUMNS) / 8, (COMPONENTS, 1, 1)), "tied": np.eye(COLUMNS) / 8,
                  "diag": np.full((COMPONENTS, COLUMNS), 0.125)}  # fmt: skip

        def fit(X: np.ndarray) -> float:
            warnings.simplefilter("ignore")
            weights = np.full(COMPONENTS, 1 / COMPONENTS)
            start = {"weights_init": weights, "means_init": near_centres(), "precisions_init": shapes[kind]}
            model = GaussianMixture(
                COMPONENTS, covariance_type=kind, max_iter=STEPS, tol=0.0, reg_covar=0.0,
                init_params="random", random_state=0, **start,
            )  # fmt: skip
            return model.fit(X).lower_bound_

        return fit

    return load


def our_variational() -> Callable[[np.ndarray], float]:
    """Coordinate ascent from rows far apart, a fixed number of sweeps."""
    import jax.random as jr

    from tractable.core.checks import to_device
    from tractable.distributions.multivariate import Dirichlet
    from tractable.inference.expectation_maximisation.em import EM
    from tractable.inference.variational.cavi_mixture import BayesianMixture, default_prior

    def fit(X: np.ndarray) -> float:
        weights = Dirichlet(to_device(np.full(COMPONENTS, 1 / COMPONENTS)))
        start = BayesianMixture.start(jr.key(0), X, weights, default_prior(X, COMPONENTS))
        found = EM(tol=0.0, max_steps=STEPS).fit(start, X).state
        return float(np.logaddexp.reduce(found.log_joint(X[:10_000]), axis=1).mean())

    return fit


def their_variational() -> Callable[[np.ndarray], float]:
    """The same number of sweeps of scikit-learn, from k-means++ seeds."""
    from sklearn.mixture import BayesianGaussianMixture

    def fit(X: np.ndarray) -> float:
        warnings.simplefilter("ignore")
        model = BayesianGaussianMixture(
            n_components=COMPONENTS, max_iter=STEPS, tol=0.0, init_params="k-means++", random_state=0,
            weight_concentration_prior_type="dirichlet_distribution",
        )  # fmt: skip
        return float(model.fit(X).score_samples(X[:10_000]).mean())

    return fit


WORKLOADS: dict[str, Workload] = {
    "mixture-full": Workload(
        correlated, {"tractable": ours("full"), "scikit-learn": theirs("full")}, "log-density"
    ),
    "mixture-tied": Workload(
        correlated, {"tractable": ours("tied"), "scikit-learn": theirs("tied")}, "log-density"
    ),
    "mixture-diagonal": Workload(
        correlated, {"tractable": ours("diagonal"), "scikit-learn": theirs("diag")}, "log-density"
    ),
    "mixture-variational": Workload(
        correlated,
        {"tractable": lambda: our_variational(), "scikit-learn": lambda: their_variational()},
        "log-density",
    ),
}
