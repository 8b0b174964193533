"""Probit regression: the written loss, an independent minimum, tails, the link to logistic regression."""

import jax
import mpmath
import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm

from tractable.core.iterate import Status
from tractable.core.rows import Rows
from tractable.supervised.logistic.binary import fit_logistic
from tractable.supervised.logistic.newton import StandardRows
from tractable.supervised.logistic.probit import fit_probit, probit_loss


def table(num_rows=150, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(num_rows, 2))
    return x, (0.3 + x @ [1.0, -0.5] + generator.normal(size=num_rows) > 0).astype(int)


def test_loss_is_as_written_also_far_in_the_tail():
    x, y = table(5)
    theta = np.array([0.4, 0.2])
    p = norm.cdf(x @ theta)
    np.testing.assert_allclose(
        probit_loss(theta, x, y), -(y * np.log(p) + (1 - y) * np.log1p(-p)).sum(), rtol=1e-10
    )
    with mpmath.workdps(40):
        exact = -mpmath.log(mpmath.ncdf(-60))
    np.testing.assert_allclose(probit_loss([60.0], [[-1.0]], [1]), float(exact), rtol=1e-12)


def test_newton_meets_an_independent_minimum():
    x, y = table()
    for penalty in (0.0, 3.0):

        def objective(t, penalty=penalty):
            margin = (2 * y - 1) * (t[0] + x @ t[1:])
            return -norm.logcdf(margin).sum() + 0.5 * penalty * t[1:] @ t[1:]

        best = minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-6}).x
        fitted = fit_probit(x, y, penalty=penalty)
        np.testing.assert_allclose([fitted.intercept, *fitted.coefficients], best, atol=1e-5)
        assert fitted.status is Status.converged


def test_covariance_is_the_inverse_hessian():
    x, y = table()
    fitted = fit_probit(x, y)
    design = np.column_stack([np.ones(len(x)), x])
    theta = np.array([fitted.intercept, *fitted.coefficients])
    hessian = jax.hessian(lambda t: probit_loss(t, design, y))(theta)
    np.testing.assert_allclose(fitted.covariance, np.linalg.inv(hessian), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda t: probit_loss(t, design, y))(theta), 0, atol=1e-9)


def test_coefficients_are_about_the_root_of_pi_over_eight_of_the_logistic_ones():
    x, y = table(2000, 3)
    ratio = np.asarray(fit_probit(x, y).coefficients) / np.asarray(fit_logistic(x, y).coefficients)
    np.testing.assert_allclose(ratio, np.sqrt(np.pi / 8), rtol=0.08)


def test_a_hopeless_start_has_finite_curvature():
    rows = StandardRows.of(Rows.of(np.array([[1.0], [-1.0]]), np.array([0, 1]), target="binary"), False)
    loss, gradient, hessian = rows.probit(np.array([1e6]))
    np.testing.assert_allclose([loss, gradient[0], hessian[0, 0]], [1e12, 2e6, 2.0], rtol=1e-6)


def test_probabilities_are_the_normal_cdf():
    x, y = table()
    fitted = fit_probit(x, y, penalty=1.0)
    eta = x @ np.asarray(fitted.coefficients) + float(fitted.intercept)
    np.testing.assert_allclose(fitted.predict_proba(x), norm.cdf(eta), rtol=1e-12)
