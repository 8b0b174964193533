"""Capture and recapture: how many animals there are, with a latent for each that may exist."""

import numpy as np
from scipy.special import gammaln, xlogy

import tractable as tr
from tractable.distributions import Bernoulli, Beta, Binomial

NIGHTS, MOST = 5, 120


@tr.model
def animals(caught):
    """Each of `MOST` animals exists with chance `share`, and each night is caught with chance `rate`."""
    share, rate = tr.sample("share", Beta(1.0, 1.0)), tr.sample("rate", Beta(1.0, 1.0))
    with tr.plate("animal", MOST):
        exists = tr.sample("exists", Bernoulli(share))
        tr.sample("caught", Binomial(NIGHTS, exists * rate), obs=caught)


def by_hand(caught: np.ndarray) -> tuple[float, float]:
    """The log-evidence and the expected number of animals: the share is integrated, the rate on a grid."""
    seen, captures = int((caught > 0).sum()), int(caught.sum())
    some = caught[caught > 0]
    ways = (gammaln(NIGHTS + 1) - gammaln(some + 1) - gammaln(NIGHTS - some + 1)).sum()
    nodes, weights = np.polynomial.legendre.leggauss(400)
    rate, weights = (nodes + 1) / 2, weights / 2
    number = np.arange(seen, MOST + 1)[:, None]  # of existing animals; the flat share makes each as probable
    hidden, unknown = number - seen, MOST - seen
    choose = gammaln(unknown + 1) - gammaln(hidden + 1) - gammaln(unknown - hidden + 1)
    shares = gammaln(number + 1) + gammaln(MOST - number + 1) - gammaln(MOST + 2)
    captured = ways + xlogy(captures, rate) + xlogy(NIGHTS * number - captures, 1 - rate)
    terms = choose + shares + captured + np.log(weights)
    total = np.logaddexp.reduce(terms.ravel())
    return float(total), float((np.exp(terms - total) * number).sum())


def main() -> None:
    random = np.random.default_rng(0)
    caught = np.zeros(MOST, int)
    caught[:70] = random.binomial(NIGHTS, 0.3, 70)  # seventy animals; some were never seen
    post = tr.infer(animals, caught, key=0)
    print(post.explain())
    number = post["exists"].sum(-1)
    print(f"seen {np.sum(caught > 0)}, estimated {number.mean():.1f} +- {number.std():.1f}")

    log_evidence, expected = by_hand(caught)
    assert (post.explain().before, post.explain().after) == (MOST + 2, 2)
    assert post.verdict.ok
    assert abs(float(post.log_evidence.value) - log_evidence) < 1e-6
    assert abs(number.mean() - expected) < 4 * number.std() / np.sqrt(number.size)


if __name__ == "__main__":
    main()
