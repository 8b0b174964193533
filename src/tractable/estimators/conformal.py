r"""Layers that make any estimator honest: calibrated by rows that its fits have not seen.

Numbers.     Copies of the estimator are fitted without each fold; the ranks $F_i(y_i)$ of held-out rows
             give the map $G$ (`supervised.selection.recalibration`), and the estimator fitted to all rows
             answers with $G(F(y))$, which has a density.
Classes.     Probabilities of held-out rows choose a map (`supervised.selection.share_maps`).
Guarantee.   `conformal_interval` is the cross-conformal interval of the folds' copies: with exchangeable rows
             it holds a new target with probability at least $1 - 2\alpha - \frac{1 - K/n}{K + 1}$ whatever
             the estimator, and in practice near $1 - \alpha$.
Weights.     A row of weight two is the row twice: copies of a row are in one fold.
Cost.        As many fits as folds, and one more.
References.  Dawid (1984); Kuleshov et al. (2018); Barber et al. (2021), "Predictive inference with the
             jackknife+"; Guo et al. (2017).
"""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_expit, log_ndtr, ndtri, ndtri_exp, stdtr, stdtrit
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import has_fit_parameter

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check
from tractable.core.chunks import pad_rows
from tractable.core.host_random import generator
from tractable.core.progress import track
from tractable.core.rows import Rows
from tractable.distributions.base import Univariate
from tractable.distributions.continuous import Normal
from tractable.distributions.leading_axes import unit_log_probs
from tractable.distributions.student import StudentT
from tractable.estimators.base import Classifier, Regressor
from tractable.estimators.bayes_linear import BayesianLinearRegressor
from tractable.estimators.logistic import LogisticClassifier
from tractable.estimators.through import predict_dist
from tractable.supervised.selection.held_out import held_out_blocks, is_refusal, row_folds
from tractable.supervised.selection.recalibration import RankMap, fit_rank_map
from tractable.supervised.selection.share_maps import METHODS, CalibratedShares, fit_share_map
from tractable.supervised.trees.columns import distinct_rows

__all__ = ["CalibratedClassifier", "CalibratedRegressor"]

_HALVINGS = 60
_FEW = 2_048  # rows: below, threads of the linear algebra spend their time waiting for each other
_LEAST = -700.0  # of the logarithm of a rank: beyond, a number is zero


class _Layer:
    """Copies of one estimator, fitted to parts of the rows."""

    _parameter_constraints: ClassVar[dict] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
    }
    estimator: Any

    @property
    def _accepts_missing(self) -> bool:
        """What the estimator inside accepts."""
        return get_tags(self._base() if self.estimator is None else self.estimator).input_tags.allow_nan

    def _copy(self, rows: Rows, labels: np.ndarray | None = None) -> Any:
        made: Any = clone(self._base() if self.estimator is None else self.estimator)
        y, counts = rows.y if labels is None else labels[rows.y], rows.weights
        if bool((counts == 1).all()):
            return made.fit(rows.X, y)
        if has_fit_parameter(made, "sample_weight"):
            return made.fit(rows.X, y, sample_weight=counts)
        must = "one that takes `sample_weight`, since the rows have weights"
        check(bool((counts == np.floor(counts)).all()), "estimator", must, type(made).__name__)
        times = counts.astype(int)
        return made.fit(np.repeat(rows.X, times, 0), np.repeat(y, times))

    def _base(self) -> Any:
        raise NotImplementedError


class CalibratedRegressor(_Layer, Regressor):
    r"""Any regressor with predictive distributions, its ranks made uniform by held-out rows.

    The distribution is $G(F(y))$ with $G(u) = \sigma(a + \alpha\log u - \beta\log(1 - u))$, shrunk to the
    identity where rows are few (`map_`); `held_out_score_` is the mean log-density of held-out rows after it.

    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> y = X[:, 0] + np.random.default_rng(0).normal(size=60)
    >>> CalibratedRegressor().fit(X, y).map_.verdict
    The ranks give no reason to change the distributions.
    """

    _parameter_constraints: ClassVar[dict] = _Layer._parameter_constraints

    def __init__(self, estimator=None, *, n_folds=5):
        self.estimator = estimator
        self.n_folds = n_folds

    def _base(self):
        return BayesianLinearRegressor("evidence")

    def fit(self, X, y, sample_weight=None):
        """Fit the estimator to all rows, and its copies without each fold."""
        rows = distinct_rows(self._training_rows(X, y, sample_weight, y_numeric=True)).rows
        with one_blas_thread(rows.num_rows <= _FEW):
            return self._fit_rows(rows)

    def _fit_rows(self, rows: Rows):
        self.estimator_ = self._copy(rows)
        self.estimators_, ranks = [], []
        fold = row_folds(rows, min(self.n_folds, rows.num_rows))
        for f in track(np.unique(fold), label="Fitting copies"):
            seen, held = rows.take(fold != f), rows.take(fold == f)
            try:
                self.estimators_.append(self._copy(seen))
                ranks.append(_ranks(predict_dist(self.estimators_[-1], _padded(held.X)), held))
            except ValueError as error:
                if not is_refusal(error) and seen.num_rows > 1:
                    raise
                self.estimators_, ranks = [], []  # too few rows for a copy, or for its distribution
                break
        if not ranks:
            self.map_, self.held_out_score_ = _identity(), float("nan")
            self.tails_, self.fold_sizes_ = np.zeros((0, 2)), np.zeros(0, int)
            return self
        lower, upper, logs, weights = (np.concatenate(part) for part in zip(*ranks))
        self.map_: RankMap = fit_rank_map(lower, upper, weights)
        self.held_out_score_ = float((weights @ logs + self.map_.gain) / weights.sum())
        self.tails_ = np.column_stack([np.exp(np.minimum(lower, upper)), weights])
        self.fold_sizes_ = np.array([len(part[0]) for part in ranks])
        return self

    def predict_dist(self, X) -> Univariate:
        """The calibrated distribution of each row."""
        rows = self._new_table(X)
        return self.map_(_one(predict_dist(self.estimator_, rows.X)))

    def predict(self, X):
        """The predictive mean of each row; that of the estimator itself where its distributions stay."""
        rows = self._new_table(X)
        if self.map_.is_identity:
            return np.asarray(self.estimator_.predict(rows.X), float)
        law = _one(predict_dist(self.estimator_, _padded(rows.X)))
        found = _moved_mean(law, self.map_)
        return (np.asarray(self.map_(law).mean) if found is None else found)[: rows.num_rows]

    def predict_interval(self, X, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of each row that holds the target with probability `level`."""
        check(0 < level < 1, "level", "between 0 and 1", level)
        rows = self._new_table(X)
        law: Any = _one(predict_dist(self.estimator_, _padded(rows.X)))
        ends = []
        for p in ((1 - level) / 2, (1 + level) / 2):
            u, rest = (p, 1 - p) if self.map_.is_identity else self.map_.back(p)
            ends.append(_quantile(law, u, rest)[: rows.num_rows])
        return ends[0], ends[1]

    def log_score(self, X, y) -> float:
        """The mean log predictive density of the targets: larger is better."""
        law, targets = self.predict_dist(X), np.asarray(y, float)
        if self.map_.is_identity or law.discrete:
            return float(law.log_prob(targets)) / len(targets)
        base = law.base  # pyright: ignore
        slopes = self.map_.moved(*_tails(base, targets))[2]
        return float(np.mean(np.asarray(unit_log_probs(base, targets)) + slopes))

    def conformal_interval(self, X, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        r"""The cross-conformal interval of each row; infinite where there are too few rows for the level.

        With $\alpha$ = 1 - `level` and a tail probability $t_i = \min(F_i(y_i), 1 - F_i(y_i))$ for each
        held-out row, the lower end is the $\lfloor\alpha(n + 1)\rfloor$-th smallest of the quantiles
        $F_{k(i)}^{-1}(t_i \mid x)$ by the copies that have not seen row $i$, the upper end the mirror image.
        """
        check(0 < level < 1, "level", "between 0 and 1", level)
        rows = self._new_table(X)
        copies = [_one(predict_dist(copy, _padded(rows.X))) for copy in self.estimators_]
        rank = np.floor((1 - level) * (self.tails_[:, 1].sum() + 1) + 1e-9)
        if rank == 0 or not copies:
            infinite = np.full(rows.num_rows, np.inf)
            return -infinite, infinite
        tails = []
        for part in np.split(self.tails_, np.cumsum(self.fold_sizes_)[:-1]):
            t, w = part[np.argsort(part[:, 0], kind="stable")].T
            tails.append((t, np.concatenate([[0.0], np.cumsum(w)])))
        low, high = (_crossed(copies, tails, rank, upper) for upper in (False, True))
        return low[: rows.num_rows], high[: rows.num_rows]


class CalibratedClassifier(_Layer, Classifier):
    r"""Any classifier, its probabilities calibrated by rows that its fits have not seen.

    `method` is "temperature", "vector", "isotonic", or "auto": the one of best held-out log-score.
    Temperature is averaged with the base rate, so that a classifier that knows nothing says the base rate.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 10, ["a", "a", "b", "b"] * 10
    >>> CalibratedClassifier().fit(X, y).predict([[0.2], [2.7]]).tolist()
    ['a', 'b']
    """

    _least_classes = 1
    _parameter_constraints: ClassVar[dict] = {
        "estimator": _Layer._parameter_constraints["estimator"],
        "method": [StrOptions({"auto", *METHODS})],
    }  # fmt: skip

    def __init__(self, estimator=None, *, method="auto"):
        self.estimator = estimator
        self.method = method

    def _base(self):
        return LogisticClassifier(calibrate=False)

    def fit(self, X, y, sample_weight=None):
        """Fit the classifier to all rows, and copies of it without each fold."""
        rows = distinct_rows(self._training_classes(X, y, sample_weight)).rows
        with one_blas_thread(rows.num_rows <= _FEW):
            return self._fit_rows(rows)

    def _fit_rows(self, rows: Rows):
        self.calibration_: CalibratedShares | None = None
        self.estimator_ = None
        if len(self.classes_) == 1:
            return self
        self.estimator_ = self._copy(rows, self.classes_)
        parts = []
        for seen, held in held_out_blocks(rows):
            try:
                said = self._shares(self._copy(seen, self.classes_), held.X)
            except ValueError as error:
                if not is_refusal(error) and len(np.unique(seen.y)) > 1:
                    raise
                continue
            parts.append((said, held.y, held.weights))
        if parts:
            probs, codes, weights = (np.concatenate(part) for part in zip(*parts))
            order = generator(0).permutation(len(codes))  # parts of all folds in each part of the choice
            table = (probs[order], codes[order], weights[order])
            self.calibration_ = fit_share_map(*table, num_classes=len(self.classes_), method=self.method)
        return self

    def _shares(self, copy: Any, X: np.ndarray) -> np.ndarray:
        """Probabilities in the order of all classes; a fold may lack one."""
        found = np.zeros((len(X), len(self.classes_)))
        found[:, np.searchsorted(self.classes_, copy.classes_)] = copy.predict_proba(X)
        return found

    def predict_proba(self, X) -> np.ndarray:
        """The calibrated probability of each class, in the order of `classes_`."""
        rows = self._new_table(X)
        if self.estimator_ is None:
            return np.ones((rows.num_rows, 1))
        found = self._shares(self.estimator_, rows.X)
        return found if self.calibration_ is None else np.asarray(self.calibration_(found))


def _identity() -> RankMap:
    return RankMap(*(np.asarray(v) for v in (0.0, 1.0, 1.0, np.ones(1), 0.0, 0.0)))


def _padded(X: np.ndarray) -> np.ndarray:
    """Copies of the last row up to the next bucket: a new number of rows compiles nothing."""
    return np.asarray(pad_rows(X)[0])


def _one(found: Any) -> Univariate:
    must = "one whose predictive distributions are univariate"
    check(isinstance(found, Univariate), "estimator", must, type(found).__name__)
    return found


def _ranks(found: Any, held: Rows) -> tuple[np.ndarray, ...]:
    """Logarithms of both tails and of the density at held-out targets; ranks of counts are drawn inside of
    their mass."""
    law, n = _one(found), held.num_rows
    y = np.concatenate([held.y, np.full(law.shape[0] - n, held.y[-1])])
    logs = np.asarray(unit_log_probs(law, y))
    lower, upper = _tails(law, y)
    if law.discrete:
        share = generator(0).random(len(y))
        u = np.clip(np.exp(lower) - share * np.exp(logs), 1e-300, 1 - 1e-16)
        lower, upper = np.log(u), np.log1p(-u)
    must = "one under which every target is possible"
    check(bool(np.isfinite(logs[:n]).all()), "estimator", must, "a density of zero")
    return np.maximum(lower, _LEAST)[:n], np.maximum(upper, _LEAST)[:n], logs[:n], held.weights


def _tails(law: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of both tails, by SciPy for the two commonest families: nothing is compiled."""
    if type(law) not in (Normal, StudentT):
        return np.asarray(law.log_cdf(y)), np.asarray(law.log_survival(y))
    z = (y - np.asarray(law.loc)) / np.asarray(law.scale)
    if type(law) is Normal:
        return log_ndtr(z), log_ndtr(-z)
    with np.errstate(divide="ignore"):
        return np.log(stdtr(np.asarray(law.degrees), z)), np.log(stdtr(np.asarray(law.degrees), -z))


def _quantile(law: Any, p: float, q: float) -> np.ndarray:
    """The quantile with mass `p` up to it and `q` beyond, on the host where the tails are."""
    if type(law) not in (Normal, StudentT):
        return np.asarray(law.icdf(p) if p < q else law.inverse_survival(q))
    least, sign = min(p, q), 1.0 if p < q else -1.0
    z = ndtri(least) if type(law) is Normal else stdtrit(np.asarray(law.degrees), least)
    return np.asarray(law.loc) + np.asarray(law.scale) * sign * z


def _moved_mean(law: Any, moved: RankMap) -> np.ndarray | None:
    """The mean of a moved law of the two commonest families, whose rows share one standard law; else None."""
    odds = np.linspace(-36.0, 36.0, 145)
    lower, upper = log_expit(odds), log_expit(-odds)
    if type(law) is Normal:
        z = ndtri_exp(lower)
    elif type(law) is StudentT and np.ptp(np.asarray(law.degrees)) == 0:
        degrees = float(np.asarray(law.degrees).flat[0])
        z = np.where(odds < 0, 1, -1) * stdtrit(degrees, np.exp(np.minimum(lower, upper)))
    else:
        return None
    weights = np.exp(moved.moved(lower, upper)[2] + lower + upper)
    return np.asarray(law.loc) + np.asarray(law.scale) * (weights @ z / weights.sum())


def _crossed(
    copies: list, tails: list[tuple[np.ndarray, np.ndarray]], rank: float, upper: bool
) -> np.ndarray:
    """The `rank`-th smallest of the quantiles of all held-out tails (of their mirror images the largest), by
    halving the weight of those beyond."""
    pairs = [(copy, np.clip(t[k], 1e-300, 0.5)) for copy, (t, _) in zip(copies, tails) for k in (0, -1)]
    ends = np.stack([_quantile(copy, *((1 - t, t) if upper else (t, 1 - t))) for copy, t in pairs])
    outer, inner = (ends.max(0), ends.min(0)) if upper else (ends.min(0), ends.max(0))
    for _ in range(_HALVINGS):
        middle = outer / 2 + inner / 2
        said = [np.exp(_tails(copy, middle)[int(upper)]) for copy in copies]
        count = sum(w[np.searchsorted(t, p, side="right")] for p, (t, w) in zip(said, tails))
        reached = count >= rank
        outer, inner = np.where(reached, outer, middle), np.where(reached, middle, inner)
    return outer
