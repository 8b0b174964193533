"""Mixtures as scikit-learn estimators: validation, wiring, fitted attributes; the mathematics is in
`latent.mixtures` and `inference.variational.cavi_mixture`."""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.checks import check, to_device
from tractable.core.verdict import Verdict
from tractable.distributions.multivariate import Dirichlet
from tractable.distributions.soft_gaps import impute
from tractable.estimators.base import Clusterer, key_from
from tractable.inference.expectation_maximisation.em import EM
from tractable.inference.variational.cavi_mixture import BayesianMixture, bayesian_mixture, default_prior
from tractable.latent.mixtures.fitting import gaussian_mixture
from tractable.latent.mixtures.gaussian import GaussianMixture as Model
from tractable.latent.mixtures.starts import distinct_rows
from tractable.latent.mixtures.student import StudentMixture

__all__ = ["BayesianGaussianMixture", "GaussianMixture"]

_FLAT = 1e-12  # a variance, of columns of unit variance, that rounding may leave of nothing
_SHAPES = {
    "full": "full",
    "tied": "tied",
    "diag": "diagonal",
    "spherical": "spherical",
    "low_rank": "low_rank",
}
_POSITIVE = [Interval(Integral, 1, None, closed="left")]
_NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]


class _Mixture(Clusterer):
    """What both mixtures answer: labels, probabilities, densities and draws, from `model_`."""

    model_: Any
    weights_: np.ndarray
    verdict_: Verdict

    def predict(self, X) -> np.ndarray:
        """The most probable component of each row."""
        return np.asarray(self._joint(X)).argmax(1)

    def predict_proba(self, X) -> np.ndarray:
        """The probability of each component, given the row."""
        joint = self._joint(X)
        return np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])

    def score_samples(self, X) -> np.ndarray:
        """The log-density of each row."""
        return np.logaddexp.reduce(self._joint(X), axis=1)

    def score(self, X, y=None) -> float:
        """The mean log-density of the rows."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draws of rows, and the components that they came from, in the order of the components."""
        check(n_samples >= 1, "n_samples", "at least 1", n_samples)
        self._joint(np.zeros((1, self.n_features_in_)))  # an estimator that is not fitted says so
        random = check_random_state(getattr(self, "random_state", None))
        labels = np.sort(random.choice(len(self.weights_), n_samples, p=self.weights_ / self.weights_.sum()))
        means, cov, scales = self._drawn(random, labels)
        lower = np.linalg.cholesky(cov)
        noise = random.normal(size=(n_samples, means.shape[1])) * scales[:, None]
        return means[labels] + np.einsum("nij,nj->ni", lower[labels], noise), labels

    def _density(self) -> Any:
        return self.model_

    def _joint(self, X) -> np.ndarray:
        table = self._new_table(X)
        return np.asarray(self._density().log_joint(table.X))

    def _drawn(self, random: Any, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.asarray(self.model_.means), np.asarray(self.model_.covariances), np.ones(len(labels))


class GaussianMixture(_Mixture):
    """A Gaussian mixture by EM, with weighted rows and missing entries (NaN, integrated out exactly).

    Parameters
    ----------
    n_components : int
        How many components.
    covariance_type : str
        "full", "tied", "diag", "spherical", or "low_rank" (mixtures of factor analysers of `rank`).
    tol, max_iter : float, int
        EM ends when the mean log-density changes by less than `tol` relative to its size, or after
        `max_iter`.
    n_init : int
        Starts; the best fit that did not collapse is kept.
    init_params : str
        Seeds: "kmeans", "far" (k-means++ alone) or "random".
    floor : float
        No variance falls below this part of its column's. `verdict_` says where it acted.
    """

    _accepts_missing: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict] = {
        "n_components": _POSITIVE, "covariance_type": [StrOptions(set(_SHAPES))], "tol": _NOT_NEGATIVE,
        "max_iter": _POSITIVE, "n_init": _POSITIVE, "init_params": [StrOptions({"kmeans", "far", "random"})],
        "floor": _NOT_NEGATIVE, "rank": _POSITIVE, "random_state": ["random_state"],
    }  # fmt: skip

    def __init__(self, n_components=2, *, covariance_type="full", tol=1e-6, max_iter=200, n_init=1,
                 init_params="kmeans", floor=1e-6, rank=1, random_state=None):  # fmt: skip
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.floor = floor
        self.rank = rank
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        """Fit the mixture; a verdict that is not ok is also a warning."""
        table = self._features(X, sample_weight, ensure_min_samples=2)
        fit = gaussian_mixture(
            table.X, self.n_components, key=key_from(self.random_state), weights=table.weights,
            covariance=_SHAPES[self.covariance_type], num_starts=self.n_init, floor=self.floor,
            rank=self.rank, seeding=self.init_params, algorithm=EM(float(self.tol), self.max_iter),
        )  # fmt: skip
        self.model_, self.verdict_ = fit.state, fit.verdict
        self.weights_, self.means_ = np.asarray(fit.state.weights), np.asarray(fit.state.means)
        self.covariances_ = _as_fitted(fit.state, self.covariance_type)
        total = float(np.sum(table.weights))
        self.converged_, self.n_iter_ = fit.status.ok, fit.num_steps
        self.lower_bound_, self.lower_bounds_ = fit.objective / total, np.asarray(fit.values) / total
        self.labels_ = fit.state.labels(table.X)
        if not fit.verdict.ok:
            warnings.warn(fit.verdict.sentence, ConvergenceWarning, stacklevel=2)
        return self

    def bic(self, X) -> float:
        """Bayesian information criterion of rows: lower is better."""
        return self._checked(X, "bic")

    def aic(self, X) -> float:
        """Akaike information criterion of rows: lower is better."""
        return self._checked(X, "aic")

    def impute(self, X) -> np.ndarray:
        """Rows with each missing entry replaced by its mean given the others."""
        table = self._new_table(X)
        return impute(self.model_, table.X)

    def _checked(self, X, name: str) -> float:
        table = self._new_table(X)
        return getattr(self.model_, name)(table.X)


class BayesianGaussianMixture(_Mixture):
    """A Gaussian mixture of as many components as the rows need, at most `n_components`, by variational
    Bayes.

    Parameters
    ----------
    n_components : int
        The largest number of components; never more than there are rows. Those in use come first.
    weight_concentration_prior : float
        The concentration of the Dirichlet prior of the weights; far below one, superfluous components empty.
    tol, max_iter, n_init
        As in `GaussianMixture`, of the evidence lower bound.
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_components": _POSITIVE,
        "weight_concentration_prior": [Interval(Real, 0, None, closed="neither")], "tol": _NOT_NEGATIVE,
        "max_iter": _POSITIVE, "n_init": _POSITIVE, "random_state": ["random_state"],
    }  # fmt: skip

    def __init__(self, n_components=8, *, weight_concentration_prior=1e-3, tol=1e-7, max_iter=500, n_init=2,
                 random_state=None):  # fmt: skip
        self.n_components = n_components
        self.weight_concentration_prior = weight_concentration_prior
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        """Fit the posterior of weights, means and covariances."""
        table = self._features(X, sample_weight, ensure_min_samples=2)
        used = np.asarray(table.weights) > 0
        rows, weights, _ = distinct_rows(table.X[used], np.asarray(table.weights)[used])
        check(weights.sum() > 0, "sample_weight", "positive for at least one row", "none")
        check(len(rows) > 1, "X", "at least two distinct rows", "copies of one")
        run = self._climb(rows, weights)
        order = np.argsort(-np.asarray(run.state.expected_counts), kind="stable")
        self._keep(run.state.reordered(order))
        self.converged_, self.n_iter_ = run.status.ok, int(run.num_steps)
        self.lower_bound_ = float(run.values[-1])
        self.verdict_ = self._judged(run.status, rows, weights)
        self.labels_ = self._density().log_joint(table.X).argmax(1)
        if not run.status.ok:
            warnings.warn(self.verdict_.sentence, ConvergenceWarning, stacklevel=2)
        return self

    def _judged(self, status: Any, rows: np.ndarray, weights: np.ndarray) -> Verdict:
        """Whether the search ended, rows and not the prior alone speak, and every direction varies: along
        one that does not, the prior decides how many components there are."""
        away = rows - weights @ rows / weights.sum()
        moving = np.ptp(rows, axis=0) > 0
        still = np.flatnonzero(~moving).tolist()
        unit = away[:, moving] / np.sqrt(weights @ away[:, moving] ** 2)
        flat = bool(moving.any()) and np.linalg.eigvalsh((unit.T * weights) @ unit)[0] < _FLAT
        said = [f"{status.sentence} {self.n_active_} components in use."]
        if still:
            said.append(f"Columns {still} are constant: the prior decides there. Drop them.")
        if flat:
            said.append(
                "Columns depend on each other, or rows are few: the prior decides there. Drop columns."
            )
        if not self.n_active_:
            said.append("The rows are too few for one component.")
        numbers = {"num_active": self.n_active_, "counts": np.asarray(self.model_.expected_counts),
                   "constant": still, "dependent": bool(flat)}  # fmt: skip
        return Verdict(status.ok and len(said) == 1, " ".join(said), numbers)

    def _climb(self, rows: np.ndarray, weights: np.ndarray) -> Any:
        k = max(2, min(self.n_components, len(rows)))
        prior = default_prior(rows, k, weights, constant_spread=1e-6)
        options: dict[str, Any] = {"tol": float(self.tol), "max_steps": self.max_iter}
        alpha = float(self.weight_concentration_prior)
        if self.n_components == 1:  # the second component begins, and stays, without rows
            shares = Dirichlet(to_device(np.array([alpha, 1e-9])))
            start = BayesianMixture.labelled(rows, np.zeros(len(rows), int), shares, prior, weights)
            return EM(**options).fit(start, rows, weights=weights)
        return bayesian_mixture(
            rows, k, prior_component=prior, key=key_from(self.random_state), weights=weights,
            concentration=alpha, num_restarts=self.n_init, **options,
        )  # fmt: skip

    def _keep(self, found: BayesianMixture) -> None:
        """What scikit-learn's users look for."""
        self.model_, self.n_active_ = found, found.num_active()
        concentration = np.asarray(found.weights.concentration)[: self.n_components]
        each = jax.tree.map(lambda leaf: np.asarray(leaf)[: self.n_components], found.components)
        self.weights_, self.weight_concentration_ = concentration / concentration.sum(), concentration
        self.means_, self.scales_ = np.asarray(each.loc), np.asarray(each.scale)
        self.degrees_of_freedom_ = np.asarray(each.degrees)
        self.mean_precision_ = np.asarray(each.mean_scale)
        # the inverse of the mean precision
        self.covariances_ = self.scales_ / self.degrees_of_freedom_[:, None, None]

    def _density(self) -> StudentMixture:
        """The density of a new row, all parameters integrated out: a mixture of Student t's."""
        degrees = self.degrees_of_freedom_ - self.n_features_in_ + 1
        scale = self.scales_ * ((1 + 1 / self.mean_precision_) / degrees)[:, None, None]
        return StudentMixture(Model(self.weights_, self.means_, scale, floor=0.0), degrees)

    def _drawn(self, random, labels):
        density = self._density()
        nu = np.asarray(density.degrees)[labels]
        scales = np.sqrt(nu / random.chisquare(nu))
        return self.means_, np.asarray(density.gaussian.covariances), scales


def _as_fitted(model: Model, kind: str) -> np.ndarray:
    """Covariances in scikit-learn's shapes; low-rank ones as matrices."""
    spread: Any = model.spread
    if kind in ("full", "tied"):
        return np.asarray(spread.cov)
    return np.asarray(model.covariances if kind == "low_rank" else spread.variance)
