"""Kernel and independent components as scikit-learn estimators: validation, wiring, fitted attributes; the
mathematics is in `latent.factor`."""

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.checks import check
from tractable.estimators.base import Transformer, key_from
from tractable.estimators.margins import KERNEL_OPTIONS, POSITIVE, chosen_kernel, kernel_units
from tractable.latent.factor.independent import IndependentComponents as Sources
from tractable.latent.factor.kernel_principal import KernelPrincipalComponents

__all__ = ["IndependentComponents", "KernelPCA"]

_COUNT = Interval(Integral, 1, None, closed="left")


class KernelPCA(Transformer):
    """Principal components among the features of a kernel; with `kernel="linear"` they are those of the rows.

    Columns are standardised here (`standardise`; a kernel object sees them as they are). `inverse_transform`
    finds rows whose coordinates are near, by a kernel ridge regression with penalty `alpha`.

    >>> KernelPCA(2).fit_transform([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]]).shape
    (4, 2)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 - as scikit-learn has it
        "n_components": [_COUNT],
        "alpha": [POSITIVE],
        **KERNEL_OPTIONS,
    }

    def __init__(
        self,
        n_components=2,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        alpha=1e-6,
        standardise=True,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.alpha = alpha
        self.standardise = standardise

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def fit(self, X, y=None, sample_weight=None):
        """Find the directions; fewer than asked for, where features vary along fewer."""
        rows = self._features(X, sample_weight, absent="drop")
        self.units_: Any = kernel_units(self, rows)
        rows = self.units_(rows)
        kernel = chosen_kernel(self.kernel, self.gamma, self.degree, self.coef0, rows.X, rows.weights)
        check(rows.num_rows > 1, "X", "at least two rows", "one sample", "One row has no directions.")
        found = KernelPrincipalComponents.fit(
            rows, kernel, penalty=float(self.alpha), most=int(self.n_components)
        )
        self.model_, self.eigenvalues_ = found, np.asarray(found.variances)
        return self

    def transform(self, X) -> np.ndarray:
        """The coordinates of each row."""
        rows = self._new_table(X)
        return np.asarray(self.model_.transform(rows))

    def inverse_transform(self, X) -> np.ndarray:
        """Rows whose coordinates are near these."""
        scaled = np.asarray(self.model_.inverse(X))
        return scaled * self.units_.size + self.units_.centre


class IndependentComponents(Transformer):
    """Sources of which the columns are mixtures, by their departure from the Gaussian (FastICA).

    `mixing_` makes rows of sources, `components_` sources of rows; order and signs follow fixed rules. At
    most one source may be Gaussian: `verdict_` says where more look so.

    >>> rows = np.random.default_rng(0).uniform(size=(500, 2)) @ [[1.0, 0.5], [0.5, 1.0]]
    >>> IndependentComponents(random_state=0).fit(rows).components_.shape
    (2, 2)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 - as scikit-learn has it
        "n_components": [_COUNT, None],
        "contrast": [StrOptions({"logcosh", "exp", "cube"})],
        "tol": [POSITIVE],
        "max_iter": [_COUNT],
        "random_state": ["random_state"],
    }

    def __init__(self, n_components=None, *, contrast="logcosh", tol=1e-8, max_iter=500, random_state=None):
        self.n_components = n_components
        self.contrast = contrast
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def fit(self, X, y=None, sample_weight=None):
        """Find the sources; as many as columns, or fewer where columns are dependent."""
        rows = self._features(X, sample_weight, absent="drop")
        check(rows.num_rows > 1, "X", "at least two rows", "one sample", "One row has no sources.")
        count = None if self.n_components is None else int(self.n_components)
        must = f"at most n_features = {rows.num_columns}"
        check(count is None or count <= rows.num_columns, "n_components", must, count)
        options: dict = {"contrast": self.contrast, "max_steps": int(self.max_iter), "tol": self.tol}
        found = Sources.fit(rows, count, key=key_from(self.random_state), **options)
        self.model_, self.verdict_ = found, found.verdict
        self.mean_, self.components_, self.mixing_ = found.mean, found.unmixing, found.mixing
        self.n_iter_ = int(found.num_steps)
        if not found.status.ok:
            warnings.warn(found.status.sentence, ConvergenceWarning, stacklevel=2)
        return self

    def transform(self, X) -> np.ndarray:
        """The sources of each row."""
        rows = self._new_table(X)
        return np.asarray(self.model_.transform(rows))

    def inverse_transform(self, X) -> np.ndarray:
        """The rows that these sources make."""
        return np.asarray(self.model_.inverse(X))
