"""Two versions of a page, a defect rate and a regression: posterior, evidence, prediction in closed form."""

import jax.random as jr
import numpy as np

from tractable.distributions.bounded import Beta
from tractable.distributions.conjugate import log_evidence, posterior, predictive
from tractable.distributions.counts import Poisson
from tractable.distributions.discrete import Bernoulli
from tractable.distributions.estimates import compare_estimates
from tractable.distributions.positive import Gamma
from tractable.distributions.regression_conjugate import RegressionPrior


def main() -> None:
    rng = np.random.default_rng(0)
    old, new = rng.binomial(1, 0.10, 1000), rng.binomial(1, 0.14, 1000)
    prior = Beta(1.0, 1.0)
    rates = [posterior(prior, Bernoulli, clicks) for clicks in (old, new)]
    draws = [rate.sample(key, (20_000,)) for rate, key in zip(rates, jr.split(jr.key(0)))]
    print(f"P(new beats old) = {float((draws[1] > draws[0]).mean()):.3f}")
    apart = log_evidence(prior, Bernoulli, old) + log_evidence(prior, Bernoulli, new)
    pooled = log_evidence(prior, Bernoulli, np.concatenate([old, new]))
    print(f"log Bayes factor for two rates against one: {float(apart - pooled):.2f}")

    halves = posterior(posterior(prior, Bernoulli, old[:500]), Bernoulli, old[500:])
    assert (halves.a, halves.b) == (rates[0].a, rates[0].b)  # sequential is batch

    defects = posterior(Gamma(2.0, 1.0), Poisson, rng.poisson(3.0, 50))
    ahead = predictive(defects, Poisson)  # negative binomial: wider than a Poisson of the same mean
    assert float(ahead.variance) > float(ahead.mean)

    X = np.c_[np.ones(30), rng.normal(size=30)]
    y = X @ np.array([1.0, 2.0]) + 0.5 * rng.normal(size=30)
    flexible = RegressionPrior(np.zeros(2), 0.1 * np.eye(2), 1.0, 1.0)
    constant = RegressionPrior(np.zeros(1), 0.1 * np.eye(1), 1.0, 1.0)
    gain = flexible.log_evidence(X, y) - constant.log_evidence(X[:, :1], y)
    print(f"log evidence for a slope: {float(gain):.1f}; slope {float(flexible.posterior(X, y).loc[1]):.2f}")
    assert gain > 5

    table = compare_estimates(np.array([[3, 1, 0], [30, 10, 2]]), 1.0, held_out=np.array([6, 3, 1]))
    print(table)
    assert np.isinf(table.log_loss["mle"][0])  # a category never seen
    assert np.isfinite(table.log_loss["bayes"]).all()


if __name__ == "__main__":
    main()
