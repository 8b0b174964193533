"""Eight schools: exact draws of its power posteriors by a fine grid, and its evidence by quadrature.

mu ~ N(0, 5), tau ~ HalfCauchy(5), theta_j ~ N(mu, tau), y_j ~ N(theta_j, sigma_j).
"""

import numpy as np
from scipy.integrate import quad
from scipy.stats import halfcauchy, multivariate_normal, norm

Y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
LOG_TAU = np.linspace(-14.0, 16.0, 20_001)


def log_evidence_by_quadrature():
    """With mu and theta integrated out, y is Gaussian given tau: one integral is left."""

    def integrand(tau):
        cov = np.diag(SIGMA**2 + tau**2) + 25.0
        return np.exp(multivariate_normal(np.zeros(8), cov).logpdf(Y) + 30) * halfcauchy(0, 5).pdf(tau)

    value, _ = quad(integrand, 0, np.inf, epsabs=1e-13, epsrel=1e-11, limit=400)
    return np.log(value) - 30


def log_likelihood(theta):
    return norm(theta, SIGMA).logpdf(Y).sum(-1)


def draw(rng, beta, count):
    """Draws (mu, log tau, theta) of prior times likelihood to the power beta, independent and exact.

    The likelihood's power is Gaussian with precision beta / sigma^2: theta and mu are integrated by hand.
    """
    precision = beta / SIGMA**2
    tau2 = np.exp(2 * LOG_TAU)[:, None]
    shrunk = precision / (1 + precision * tau2)
    total = 1 / 25 + shrunk.sum(1)
    centre = (shrunk * Y).sum(1) / total
    log_p = LOG_TAU - np.log1p(np.exp(2 * LOG_TAU) / 25) - 0.5 * np.log1p(precision * tau2).sum(1)
    log_p += -0.5 * (shrunk * Y**2).sum(1) + 0.5 * centre**2 * total - 0.5 * np.log(total)
    cumulative = np.cumsum(np.exp(log_p - log_p.max()))
    index = np.searchsorted(cumulative, rng.uniform(size=count) * cumulative[-1])
    log_tau = LOG_TAU[index] + (rng.uniform(size=count) - 0.5) * (LOG_TAU[1] - LOG_TAU[0])
    mu = centre[index] + rng.normal(size=count) / np.sqrt(total[index])
    tau_precision = np.exp(-2 * log_tau)
    both = precision + tau_precision[:, None]
    mean = (precision * Y + (tau_precision * mu)[:, None]) / both
    return mu, log_tau, mean + rng.normal(size=(count, 8)) / np.sqrt(both)
