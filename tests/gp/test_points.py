"""Rows of Gaussian processes: one check for all models, faults named by column and row."""

import numpy as np
import pandas as pd
import pytest

from tractable.core import rows as core_rows
from tractable.core.rows import Rows
from tractable.gp.classification import ClassificationProcess
from tractable.gp.multi_output import MultiOutputProcess
from tractable.gp.multiclass import multiclass_posterior
from tractable.gp.points import observe
from tractable.gp.regression import GaussianProcess
from tractable.gp.sparse import SparseProcess
from tractable.gp.state_space import MarkovProcess
from tractable.gp.student import student_posterior
from tractable.kernels.stationary import RBF, Matern32

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(12, 2))
NUMBERS, CLASSES = X[:, 0] - X[:, 1], np.arange(12) % 3
PROCESS = GaussianProcess(RBF(1.0), 0.1)

# name: the posterior of rows, their targets, what `Rows` calls those, the columns of X
MODELS = {
    "exact": (PROCESS.posterior, NUMBERS, "number", 2),
    "iterative": (lambda *rows: PROCESS.posterior(*rows, method="iterative"), NUMBERS, "number", 2),
    "sparse": (SparseProcess(RBF(1.0), X[:4], 0.1).posterior, NUMBERS, "number", 2),
    "student": (lambda *rows: student_posterior(PROCESS, *rows), NUMBERS, "number", 2),
    "series": (MarkovProcess(GaussianProcess(Matern32(1.0), 0.1)).posterior, NUMBERS, "number", 1),
    "several outputs": (MultiOutputProcess(RBF(1.0), np.eye(2), 0.1).posterior, X, "numbers", 2),
    "two classes": (ClassificationProcess(RBF(1.0)).posterior, CLASSES % 2, "binary", 2),
    "several classes": (lambda *rows: multiclass_posterior(RBF(1.0), *rows), CLASSES, "class", 2),
}


def mean_of(found, rows):
    latent = found.latent(rows)
    return latent[0] if isinstance(latent, tuple) else latent.mean


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_checked_once(name, monkeypatch):
    posterior, y, target, width = MODELS[name]
    table, checked = X[:, :width], []
    original = core_rows.check_table

    def counted(name, *rest):
        checked.append(name)
        return original(name, *rest)

    prepared = Rows.of(table, y, target=target)
    new = Rows.of(table[:3])
    monkeypatch.setattr(core_rows, "check_table", counted)
    found = posterior(prepared)
    mean = mean_of(found, new)
    assert checked == []  # what is checked passes through
    plain = posterior(table, y)
    assert checked.count("X") == 1
    np.testing.assert_allclose(mean_of(plain, table[:3]), mean, rtol=1e-12, atol=1e-14)
    assert checked.count("X") == 2


@pytest.mark.parametrize("name", MODELS)
def test_faults_name_column_and_row(name):
    posterior, y, _, width = MODELS[name]
    frame = pd.DataFrame(X[:, :width], columns=["age", "height"][:width])
    found = posterior(frame, y)
    frame.iloc[3, width - 1] = np.nan
    message = f"`X` must be finite; got NaN in column '{frame.columns[-1]}', row 3"
    with pytest.raises(ValueError, match=message):
        posterior(frame, y)
    with pytest.raises(ValueError, match=message):
        found.latent(frame)
    with pytest.raises(ValueError, match="`y`"):
        posterior(X[:, :width], y[:-1])
    with pytest.raises(ValueError, match=f"`X` must be rows of {width} columns"):
        found.latent(np.zeros((2, width + 1)))


def test_some_of_merged_rows_keep_what_they_were_merged_from():
    merged = observe(np.concatenate([X, X]), np.concatenate([NUMBERS, NUMBERS + 1]), merge=True)
    assert merged.num_rows == 12
    few = merged.take(np.array([2, 5, 7]))
    assert few.num_rows == 3
    np.testing.assert_allclose(few.unpadded(few.within), 0.5 * np.ones(3), rtol=1e-12)
    np.testing.assert_array_equal(few.unpadded(few.X), np.asarray(merged.X)[[2, 5, 7]])
