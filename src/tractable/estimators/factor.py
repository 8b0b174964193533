"""Principal components and factor analysis as scikit-learn estimators: validation, wiring, fitted attributes;
the mathematics is in `latent.factor`."""

import dataclasses
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from tractable.core.checks import check
from tractable.core.moments import Moments, moments_of
from tractable.core.rows import Rows, refuse_text
from tractable.estimators.base import Transformer, key_from
from tractable.latent.factor.analysis import FactorAnalysis as FactorModel
from tractable.latent.factor.dimension import dimension_evidence
from tractable.latent.factor.principal import PrincipalComponents, moments_from, num_directions
from tractable.latent.factor.probabilistic import ProbabilisticPCA
from tractable.latent.factor.rotation import varimax

__all__ = ["PCA", "FactorAnalysis"]

_COUNT = Interval(Integral, 1, None, closed="left")


class PCA(Transformer):
    """Principal components: the directions of largest variance, and the coordinates of rows along them.

    `n_components` is a number, a share of the variance below one, "evidence" (the number of highest evidence
    under probabilistic PCA), or None for all. `partial_fit` adds rows to those seen before, exactly: what is
    kept is their weight, mean and scatter. `score` is the mean log-density under probabilistic PCA.

    >>> rows = [[0.0, 0.0], [2.0, 2.1], [4.0, 3.9], [6.0, 6.0]]
    >>> PCA(1).fit(rows).explained_variance_ratio_.round(3).tolist()
    [1.0]
    """

    _parameter_constraints: dict = {  # noqa: RUF012 - as scikit-learn has it
        "n_components": [
            _COUNT, Interval(Real, 0, 1, closed="neither"), StrOptions({"evidence"}), None,
        ],
        "solver": [StrOptions({"auto", "eigen", "svd", "power", "randomised"})],
        "standardise": ["boolean"],
        "whiten": ["boolean"],
        "random_state": ["random_state"],
    }  # fmt: skip

    def __init__(
        self, n_components=None, *, solver="auto", standardise=False, whiten=False, random_state=None
    ):
        self.n_components = n_components
        self.solver = solver
        self.standardise = standardise
        self.whiten = whiten
        self.random_state = random_state

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def fit(self, X, y=None, sample_weight=None):
        """Find the directions."""
        self.moments_ = None
        if sample_weight is None and (self.solver in ("auto", "eigen", "power")):
            moments, table = self._glance(X)
            if moments is not None:
                return self._from_moments(moments, table)
        rows = self._features(X, sample_weight, absent="drop")
        streams = self.solver in ("auto", "eigen", "power") and rows.num_rows >= rows.num_columns
        if streams or isinstance(self.n_components, str):
            return self._from_moments(moments_from(rows), rows.X)
        count, ddof = self._asked(rows.X), self._ddof(float(rows.total))
        key = key_from(self.random_state) if self.solver == "randomised" else None
        found: Any = PrincipalComponents.fit(
            rows, count, solver=self.solver, standardise=self.standardise, ddof=ddof, key=key
        )
        return self._keep(self._cut(found), float(rows.total))

    def partial_fit(self, X, y=None, sample_weight=None):
        """Add rows to those that were seen before."""
        before: Any = getattr(self, "moments_", None)
        rows = self._features(X, sample_weight, reset=before is None, absent="drop")
        found = moments_from(rows)
        self.moments_ = found if before is None else before + found
        return self._from_moments(self.moments_, None)

    def transform(self, X) -> np.ndarray:
        """The coordinates of each row, of unit variance where `whiten` says so."""
        rows = self._new_table(X)
        return np.asarray(self.model_.whiten(rows) if self.whiten else self.model_.transform(rows))

    def inverse_transform(self, X) -> np.ndarray:
        """The rows that have these coordinates."""
        z = np.asarray(X, float)
        return np.asarray(self.model_.inverse(z * np.sqrt(self.model_.variances) if self.whiten else z))

    def score_samples(self, X) -> np.ndarray:
        """The log-density of each row under probabilistic PCA with these directions."""
        rows = self._new_table(X)
        found = self.model_
        d = len(found.mean)
        own = dataclasses.replace(found, mean=np.zeros(d), scale=np.ones(d))  # in units of the columns
        model = ProbabilisticPCA.from_components(own)
        rest = (rows.X - found.mean) / found.scale
        return np.asarray(model.log_prob(rest)) - np.log(found.scale).sum()

    def score(self, X, y=None) -> float:
        """The mean log-density of rows."""
        return float(self.score_samples(X).mean())

    def _glance(self, X) -> tuple[Moments | None, np.ndarray]:
        """The moments of a tall table in one pass, which show whether all is finite and of sizes whose
        squares are numbers; None where a closer look must say what is wrong, or where there are few rows."""
        self._validate_params()
        refuse_text("X", X)
        table: Any = validate_data(self, X, dtype=np.float64, order="C", ensure_all_finite=False)
        if len(table) < table.shape[1]:
            return None, table
        found = moments_of(table)
        fine = np.isfinite(found.scatter).all() and (found.squares > 0).all()
        return (found if fine else None), table

    def _asked(self, table: np.ndarray | None) -> int:
        if not isinstance(self.n_components, Integral):
            return self.n_features_in_ if table is None else num_directions(table)
        count, must = int(self.n_components), f"at most n_features = {self.n_features_in_}"
        check(count <= self.n_features_in_, "n_components", must, count)
        return count

    def _ddof(self, total: float) -> int:
        """Variances are divided by n - 1, as elsewhere in scikit-learn; one row has none."""
        return 1 if total > 1 else 0

    def _from_moments(self, moments: Moments, table: np.ndarray | None):
        count = self._asked(table)
        if self.n_components == "evidence":
            count = max(dimension_evidence(moments).best, 1)
        solver = "power" if self.solver == "power" else "eigen"
        ddof = self._ddof(float(moments.count))
        found = PrincipalComponents.from_moments(
            moments, count, standardise=self.standardise, ddof=ddof, solver=solver
        )
        return self._keep(self._cut(found), float(moments.count))

    def _cut(self, found: PrincipalComponents) -> PrincipalComponents:
        """The fewest directions that explain the asked share."""
        if not isinstance(self.n_components, float):
            return found
        shares = np.cumsum(found.explained_ratio)
        count = min(int(np.searchsorted(shares, float(self.n_components) * (1 - 1e-12))) + 1, len(shares))
        return dataclasses.replace(
            found, components=found.components[:count], variances=found.variances[:count]
        )

    def _keep(self, found: PrincipalComponents, total: float):
        self.model_ = found
        self.mean_, self.components_ = found.mean, found.components
        self.n_components_ = len(found.variances)
        self.explained_variance_ = found.variances
        self.explained_variance_ratio_ = found.explained_ratio
        self.singular_values_ = np.sqrt(found.variances * (total - found.ddof))
        left = self.n_features_in_ - self.n_components_
        self.noise_variance_ = float(found.residual_variance) / left if left else 0.0
        return self


class FactorAnalysis(Transformer):
    """Factor analysis by maximum likelihood, with a noise of its own for every column; NaN is a gap.

    `rotation="varimax"` turns the factors so that each column loads on few of them, which changes no density.
    `model_` is the fitted `latent.FactorAnalysis`, `verdict_` what is known of the fit (Heywood cases).

    >>> rows = np.random.default_rng(0).normal(size=(200, 1)) + np.random.default_rng(1).normal(size=(200, 4))
    >>> FactorAnalysis(1).fit(rows).components_.shape
    (1, 4)
    """

    _accepts_missing = True
    _parameter_constraints: dict = {  # noqa: RUF012 - as scikit-learn has it
        "n_components": [_COUNT, None],
        "rotation": [StrOptions({"varimax", "quartimax"}), None],
        "least_noise": [Interval(Real, 0, 1, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [_COUNT],
    }

    def __init__(self, n_components=1, *, rotation=None, least_noise=1e-4, tol=1e-10, max_iter=1000):
        self.n_components = n_components
        self.rotation = rotation
        self.least_noise = least_noise
        self.tol = tol
        self.max_iter = max_iter

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def fit(self, X, y=None, sample_weight=None):
        """Maximise the likelihood."""
        rows: Rows = self._features(X, sample_weight, absent="drop")
        count = rows.num_columns if self.n_components is None else int(self.n_components)
        must = f"at most n_features = {rows.num_columns}"
        check(count <= rows.num_columns, "n_components", must, count)
        options = {"least_noise": self.least_noise, "max_steps": int(self.max_iter), "tol": self.tol}
        return self._keep(FactorModel.fit(rows, count, **options))

    def _keep(self, fitted: Any):
        model = fitted.model
        if self.rotation is not None:
            turned = varimax(model.loadings, gamma=1.0 if self.rotation == "varimax" else 0.0)
            model = FactorModel(model.mean, turned.loadings, model.noise)
        self.model_, self.verdict_ = model, fitted.verdict
        self.mean_, self.components_ = np.asarray(model.mean), np.asarray(model.loadings).T
        self.noise_variance_ = np.asarray(model.noise)
        self.log_evidence_, self.n_iter_ = float(fitted.log_evidence), int(fitted.num_steps)
        return self

    def transform(self, X) -> np.ndarray:
        """The posterior mean of the factors of each row."""
        rows = self._new_table(X)
        return np.asarray(self.model_.transform(rows))

    def inverse_transform(self, X) -> np.ndarray:
        """The expected row for these factors."""
        return np.asarray(self.model_.inverse(X))

    def get_covariance(self) -> np.ndarray:
        """The covariance of the model."""
        return np.asarray(self.model_.cov)

    def score_samples(self, X) -> np.ndarray:
        """The log-density of each row, of the entries that were seen."""
        rows = self._new_table(X)
        return np.asarray(self.model_.log_prob(rows))

    def score(self, X, y=None) -> float:
        """The mean log-density of rows."""
        return float(self.score_samples(X).mean())
