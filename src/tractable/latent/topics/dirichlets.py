r"""Dirichlet distributions of many documents and topics on the host: expected logarithms, learning.

Identity.    $E\log\theta_k = \psi(\gamma_k) - \psi(\sum_j\gamma_j)$ for $\theta \sim \mathrm{Dir}(\gamma)$.
Learning.    From counts $n_{dk}$ the fixed point of Minka,
             $\alpha_k \leftarrow \alpha_k\,\frac{\sum_d\psi(n_{dk} + \alpha_k) - \psi(\alpha_k)}
             {\sum_d\psi(N_d + A) - \psi(A)}$, whose likelihood never falls; the symmetric one has
             the sum over $k$ above and $K$ times the sum below. From expected logarithms the symmetric
             maximum by Newton's steps in $\log\alpha$ (the asymmetric one is `Dirichlet.from_stats`).
Cost.        One pass over the counts per step.
References.  Minka (2000), "Estimating a Dirichlet distribution"; Wallach, Mimno and McCallum (2009).
"""

import numpy as np
from scipy.special import digamma, polygamma

__all__ = ["expected_log", "learn_from_counts", "learn_symmetric"]


def expected_log(concentration: np.ndarray) -> np.ndarray:
    """The expected logarithm of each probability, along the last axis.

    >>> expected_log(np.array([[1.0, 1.0]])).tolist()
    [[-1.0, -1.0]]
    """
    return digamma(concentration) - digamma(concentration.sum(-1, keepdims=True))


def learn_from_counts(
    concentration: np.ndarray, counts: np.ndarray, *, symmetric: bool = False, num_steps: int = 5
) -> np.ndarray:
    """A few of Minka's steps towards the concentration under which rows of counts are most probable.

    A category that no row has goes to zero; it is kept a millionth of what it was at each step above it.

    >>> counts = np.array([[4.0, 0.0], [3.0, 1.0], [0.0, 4.0]])
    >>> learn_from_counts(np.ones(2), counts, num_steps=200).round(3).tolist()
    [0.309, 0.262]
    """
    alpha, lengths = np.array(concentration, float), counts.sum(-1)
    for _ in range(num_steps):
        total = alpha.sum()
        above = (digamma(counts + alpha) - digamma(alpha)).sum(0)
        below = (digamma(lengths + total) - digamma(total)).sum()
        ratio = above / below
        if symmetric:  # the mean over categories, each weighed by its own concentration
            ratio = np.full_like(alpha, (alpha @ above) / (total * below))
        alpha = alpha * np.maximum(ratio, 1e-6)
    return alpha


def learn_symmetric(value: float, mean_log: float, size: int, *, max_steps: int = 100) -> float:
    r"""The $\alpha$ at which $\log\Gamma(K\alpha) - K\log\Gamma(\alpha) + (\alpha - 1)\,K\,\bar l$ is
    highest, where $\bar l$ = `mean_log` is the mean expected logarithm of $K$ = `size` probabilities.

    >>> flat = expected_log(np.full((1, 4), 0.3)).mean()
    >>> round(learn_symmetric(1.0, flat, 4), 9)
    0.3
    """
    place = np.log(value)
    for _ in range(max_steps):
        a = np.exp(place)
        slope = a * (digamma(size * a) - digamma(a) + mean_log)
        curve = slope + a * a * (size * polygamma(1, size * a) - polygamma(1, a))
        step = np.clip(-slope / curve if curve < 0 else np.sign(slope), -1.0, 1.0)
        place += step
        if abs(step) < 1e-12:
            break
    return float(np.exp(place))
