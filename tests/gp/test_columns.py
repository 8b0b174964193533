"""Columns of zeros change nothing, and come off again."""

import numpy as np

from tractable.bijections.support import unconstrain
from tractable.gp.classification import ClassificationProcess
from tractable.gp.columns import free_numbers_kept, resized, wide_rows, width_of
from tractable.kernels.stationary import RBF

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(24, 2))
Y = (X[:, 0] + 0.5 * GENERATOR.normal(size=24) > 0).astype(int)


def test_wide_models_are_the_narrow_ones():
    process = ClassificationProcess(4.0 * RBF([1.0, 2.0]))
    narrow = process.posterior(X, Y)
    wide = resized(process, 2, 8).posterior(wide_rows(X, 8), Y)
    # to the last digits: programs of two widths may add in another order
    np.testing.assert_allclose(wide.log_evidence, narrow.log_evidence, rtol=1e-14)
    np.testing.assert_allclose(wide.probability(wide_rows(X[:5], 8)), narrow.probability(X[:5]), rtol=1e-14)
    back = resized(wide, 8, 2)
    assert repr(back.process.kernel) == repr(process.kernel)
    np.testing.assert_allclose(back.probability(X[:5]), narrow.probability(X[:5]), rtol=1e-14)


def test_free_numbers_of_the_columns_that_stay():
    process = resized(ClassificationProcess(4.0 * RBF([1.0, 2.0])), 2, 8)
    free, rebuild = unconstrain(process)
    kept = free_numbers_kept(rebuild, 8, 2)
    names = [name for name, keep in zip(rebuild.names, kept) if keep]
    assert sorted(n.rsplit(".", 1)[-1] for n in names) == ["length_scale[0]", "length_scale[1]", "variance"]
    wanted = np.sort(np.log([1.0, 2.0, 4.0]))
    np.testing.assert_allclose(np.sort(np.asarray(free)[kept]), wanted, atol=1e-15)


def test_few_widths_for_few_rows():
    assert {width_of(200, d) for d in range(1, 33)} == {8, 32}
    assert width_of(2000, 5) == 5
