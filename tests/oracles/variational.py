"""Slow, obvious answers for variational methods: plain NumPy and SciPy, written from the definitions."""

import itertools

import numpy as np
from scipy.special import digamma, gammaln, multigammaln


def mixture_elbo(xs, r, alpha0, alpha, m0, k0, v0, w0, m, k, v, w):
    """The ELBO of the Bayesian Gaussian mixture, term by term (Bishop 2006, equations 10.70 to 10.77).

    `r` are responsibilities; priors `alpha0, m0, k0, v0, w0` and posteriors `alpha, m, k, v, w`, in which `w`
    is the scale matrix of the Wishart distribution of the precision.
    """
    d, count = xs.shape[1], r.sum(0)
    size = len(alpha)
    log_pi = digamma(alpha) - digamma(alpha.sum())
    log_lam = np.array(
        [
            digamma(0.5 * (v[j] - np.arange(d))).sum() + d * np.log(2) + np.linalg.slogdet(w[j])[1]
            for j in range(size)
        ]
    )
    likelihood = prior = posterior = 0.0
    for j in range(size):
        quadratic = np.array([(x - m[j]) @ w[j] @ (x - m[j]) for x in xs])
        each = log_lam[j] - d / k[j] - v[j] * quadratic - d * np.log(2 * np.pi)
        likelihood += 0.5 * (r[:, j] * each).sum()
        gap = m[j] - m0
        prior += 0.5 * (
            d * np.log(k0 / (2 * np.pi)) + log_lam[j] - d * k0 / k[j] - k0 * v[j] * gap @ w[j] @ gap
        )
        prior += log_wishart_constant(w0, v0) + 0.5 * (v0 - d - 1) * log_lam[j]
        prior -= 0.5 * v[j] * np.trace(np.linalg.solve(w0, w[j]))
        entropy = -log_wishart_constant(w[j], v[j]) - 0.5 * (v[j] - d - 1) * log_lam[j] + 0.5 * v[j] * d
        posterior += 0.5 * log_lam[j] + 0.5 * d * np.log(k[j] / (2 * np.pi)) - 0.5 * d - entropy
    labels = (r * log_pi[None]).sum()
    held = r > 0
    of_labels = (r[held] * np.log(r[held])).sum()
    weights = log_dirichlet_constant(alpha0) + ((alpha0 - 1) * log_pi).sum()
    of_weights = log_dirichlet_constant(alpha) + ((alpha - 1) * log_pi).sum()
    assert np.isclose(count.sum(), len(xs))
    return likelihood + labels + weights + prior - of_labels - of_weights - posterior


def log_dirichlet_constant(alpha):
    """The logarithm of what normalises a Dirichlet density."""
    return gammaln(alpha.sum()) - gammaln(alpha).sum()


def log_wishart_constant(scale, degrees):
    """The logarithm of what normalises a Wishart density."""
    d = len(scale)
    half = degrees / 2
    return -half * np.linalg.slogdet(scale)[1] - half * d * np.log(2) - multigammaln(half, d)


def document_log_evidence(words, topics, alpha):
    """log p(words) of a document under fixed topics, by the sum over all assignments of its words."""
    total = -np.inf
    k = len(alpha)
    for labels in itertools.product(range(k), repeat=len(words)):
        counts = np.bincount(labels, minlength=k)
        mass = gammaln(alpha.sum()) - gammaln(alpha.sum() + len(words))
        mass += (gammaln(alpha + counts) - gammaln(alpha)).sum()
        mass += sum(np.log(topics[z, word]) for z, word in zip(labels, words))
        total = np.logaddexp(total, mass)
    return total


def mean_field_sweeps(log_joint, q, num_sweeps):
    """Coordinate ascent on a table by loops over its cells: the factors, and the ELBO of each sweep."""
    shape = log_joint.shape
    q = [np.array(each, float) for each in q]
    bounds = []
    for _ in range(num_sweeps):
        for i in range(len(shape)):
            logits = np.zeros(shape[i])
            for cell in np.ndindex(*shape):
                weight = np.prod([q[j][cell[j]] for j in range(len(shape)) if j != i])
                logits[cell[i]] += weight * log_joint[cell]
            q[i] = np.exp(logits - np.logaddexp.reduce(logits))
        bound = 0.0
        for cell in np.ndindex(*shape):
            mass = np.prod([q[j][cell[j]] for j in range(len(shape))])
            bound += mass * (log_joint[cell] - np.log(mass))
        bounds.append(bound)
    return q, bounds
