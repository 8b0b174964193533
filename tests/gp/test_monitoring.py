"""One-step-ahead checks of a process, their alarm, handing over, and what exactness costs."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.gp.classification import ClassificationProcess
from tractable.gp.monitoring import monitor_predictions
from tractable.gp.points import observe
from tractable.gp.regression import GaussianProcess, evidence_of, fitted
from tractable.gp.sparse import SparseProcess, _collapsed
from tractable.inference.trust.monitoring import log_odds
from tractable.kernels.stationary import RBF, Matern32
from tractable.supervised.selection.uncertainty import selective_prediction, threshold_for_coverage


def test_predictions_are_those_of_the_rows_before_and_sum_to_the_evidence():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0, 3, (12, 2)), rng.normal(size=12)
    process = GaussianProcess(1.5 * Matern32(0.7), noise=0.2, mean=0.1)
    seen = monitor_predictions(process, X, y)
    assert float(seen.log_density.sum()) == pytest.approx(float(process.log_evidence(X, y)), rel=1e-12)
    for t in (1, 5, 11):
        ahead = process.posterior(X[:t], y[:t]).predict_dist(X[t : t + 1])
        assert float(seen.predicted.loc[t]) == pytest.approx(float(ahead.loc[0]), abs=1e-10)
        assert float(seen.predicted.scale[t]) == pytest.approx(float(ahead.scale[0]), rel=1e-10)
        assert float(seen.error[t]) == pytest.approx(
            (y[t] - float(ahead.loc[0])) / float(ahead.scale[0]), rel=1e-8
        )


def test_false_alarms_are_as_rare_as_was_asked_and_drift_is_found():
    """Errors of a process that holds are independent normals: of 4000 watches at most 5% give an alarm."""
    quiet = jr.normal(jr.key(0), (4000, 200))
    odds = jax.jit(jax.vmap(lambda z: log_odds(z, jnp.asarray(0))))
    false = (np.asarray(odds(quiet)) >= -np.log(0.05)).any(1).mean()
    assert false < 0.05
    moved = (np.asarray(odds(quiet[:500] + 1.0 * (jnp.arange(200) >= 100)[None])) >= -np.log(0.05)).argmax(1)
    assert np.median(moved) < 125
    assert np.mean(np.exp(np.asarray(odds(quiet))[:, 0])) == pytest.approx(1.0, abs=0.05)


def test_an_alarm_names_its_row_and_trusted_rows_are_not_judged():
    rng = np.random.default_rng(1)
    X = np.linspace(0, 10, 100)
    y = np.sin(X) + 0.1 * rng.normal(size=100)
    process = GaussianProcess(RBF(1.0), noise=0.01)
    assert monitor_predictions(process, X, y).verdict.ok
    broken = y + 0.5 * np.sin(20 * X) * (X > 6)
    seen = monitor_predictions(process, X, broken, num_trusted=20)
    assert 60 <= seen.alarm < 75
    assert f"row {seen.alarm}" in str(seen.verdict)
    early = monitor_predictions(process, X, y + 5.0 * (np.arange(100) == 3), num_trusted=20)
    assert early.verdict.ok
    np.testing.assert_allclose(early.log_odds[:20], 0.0, atol=1e-12)
    with pytest.raises(ValueError, match="`level` must be between"):
        monitor_predictions(process, X, y, level=2.0)


def test_handing_over_what_the_process_is_unsure_of_lowers_the_risk_of_the_rest():
    rng = np.random.default_rng(2)
    X = rng.uniform(-3, 3, (160, 1))
    truth = rng.random(160) < 1 / (1 + np.exp(-2 * np.sin(2 * X[:, 0]) * np.abs(X[:, 0])))
    found = ClassificationProcess(4.0 * RBF(0.8)).posterior(X[:80], truth[:80].astype(float))
    p = found.probability(X[80:])
    wrong = ((p > 0.5) != truth[80:]).astype(float)
    unsure = np.minimum(p, 1 - p)
    risks = [
        selective_prediction(unsure, wrong, threshold_for_coverage(unsure, c)).risk for c in (0.4, 0.7, 1.0)
    ]
    assert risks[0] < risks[1] < risks[2]


def _cost(function, *arguments):
    compiled = jax.jit(function).lower(*arguments).compile()
    analysis, memory = compiled.cost_analysis(), compiled.memory_analysis()
    analysis = analysis[0] if isinstance(analysis, list) else analysis
    held = memory.temp_size_in_bytes + memory.output_size_in_bytes
    return analysis["flops"], held


def test_an_exact_process_costs_the_cube_of_its_rows_and_a_sparse_one_grows_with_them():
    """The study of cost: operations and memory of the compiled programs, as XLA counts them."""
    rng = np.random.default_rng(3)
    exact = GaussianProcess(RBF(1.0), noise=0.1)
    rows = {n: observe(rng.uniform(0, 1, (n, 2)), rng.normal(size=n)) for n in (1024, 2048)}
    # a gradient is made of products of matrices, all of which XLA counts (it does not count LAPACK's factor)
    slopes = {
        n: _cost(
            jax.grad(lambda s, o: evidence_of(GaussianProcess(s * RBF(1.0), 0.1), o).total), 1.0, observed
        )
        for n, observed in rows.items()
    }
    assert slopes[2048][0] / slopes[1024][0] == pytest.approx(8, rel=0.25)
    memory = [_cost(lambda o: fitted(exact, o).learned.weights, rows[n])[1] for n in (1024, 2048)]
    assert memory[1] / memory[0] == pytest.approx(4, rel=0.25)
    few = {m: SparseProcess(RBF(1.0), rng.uniform(0, 1, (m, 2)), 0.1) for m in (64, 128)}

    def sparse(n, m):
        return _cost(lambda o: _collapsed(few[m], o).log_evidence, rows[n])

    # rows go through in blocks of 2048 in a loop whose body XLA counts once: its cost is that of one block
    assert sparse(2048, 128)[0] / sparse(2048, 64)[0] == pytest.approx(4, rel=0.35)
    assert sparse(2048, 64)[0] / sparse(1024, 64)[0] == pytest.approx(2, rel=0.25)
    assert sparse(2048, 64)[1] < 0.3 * memory[1]
