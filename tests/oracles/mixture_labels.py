"""Labels of a Gaussian mixture by loops and by enumeration: slow, obvious, no library code.

The prior of a component is (mean, kappa, nu, scale), a normal-inverse-Wishart; the weights of the labels have
a Dirichlet prior of concentration `alpha` and are integrated out.
"""

import itertools

import numpy as np
from scipy import stats
from scipy.special import gammaln, multigammaln


def posterior(points, prior):
    """The normal-inverse-Wishart given points (which may be none)."""
    mean, kappa, nu, scale = prior
    n = len(points)
    if n == 0:
        return prior
    average = points.mean(0)
    away, gap = points - average, average - mean
    spread = scale + away.T @ away + kappa * n / (kappa + n) * np.outer(gap, gap)
    return (kappa * mean + n * average) / (kappa + n), kappa + n, nu + n, spread


def log_evidence(points, prior):
    """The log-density of points with mean and covariance integrated out: a ratio of normalisers."""
    n, d = points.shape
    _, kappa, nu, scale = prior
    _, kappa_n, nu_n, scale_n = posterior(points, prior)
    return (
        multigammaln(nu_n / 2, d)
        - multigammaln(nu / 2, d)
        + nu / 2 * np.linalg.slogdet(scale)[1]
        - nu_n / 2 * np.linalg.slogdet(scale_n)[1]
        + d / 2 * np.log(kappa / kappa_n)
        - n * d / 2 * np.log(np.pi)
    )


def log_joint(labels, rows, num_components, alpha, prior):
    """log p(x, z), everything else integrated out."""
    labels = np.asarray(labels)
    counts = np.bincount(labels, minlength=num_components)
    total = gammaln(num_components * alpha) - gammaln(num_components * alpha + len(rows))
    total += sum(gammaln(alpha + c) - gammaln(alpha) for c in counts)
    return total + sum(log_evidence(rows[labels == k], prior) for k in range(num_components))


def enumerate_labels(rows, num_components, alpha, prior):
    """Every label vector, and its probability given the rows."""
    every = np.array(list(itertools.product(range(num_components), repeat=len(rows))))
    logs = np.array([log_joint(z, rows, num_components, alpha, prior) for z in every])
    weights = np.exp(logs - logs.max())
    return every, weights / weights.sum()


def choose(scores, uniform):
    weights = np.exp(scores - scores.max())
    ends = np.cumsum(weights)
    return int(np.sum(ends <= uniform * ends[-1]))


def sweep_given(labels, log_likelihood, alpha, uniforms):
    """One sweep given the log-likelihood of each point in each component, all counts made anew each time."""
    labels = np.array(labels)
    for n in range(len(labels)):
        others = np.delete(labels, n)
        counts = np.bincount(others, minlength=len(alpha))
        labels[n] = choose(np.log(counts + alpha) + log_likelihood[n], uniforms[n])
    return labels


def sweep_collapsed(labels, rows, alpha, prior, uniforms):
    """One sweep with Student-t predictives of SciPy, all statistics made anew each time."""
    labels, d = np.array(labels), rows.shape[1]
    for n in range(len(labels)):
        keep = np.arange(len(rows)) != n
        scores = []
        for k in range(len(alpha)):
            members = rows[keep & (labels == k)]
            mean, kappa, nu, scale = posterior(members, prior)
            left = nu - d + 1
            shape = scale * (kappa + 1) / (kappa * left)
            scores.append(
                np.log(len(members) + alpha[k]) + stats.multivariate_t(mean, shape, left).logpdf(rows[n])
            )
        labels[n] = choose(np.array(scores), uniforms[n])
    return labels
