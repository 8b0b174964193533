"""A tour of distributions: one shape, exact tails, quantiles, maximum likelihood, gradients."""

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.distributions import Bernoulli, Gamma, Normal, Poisson, StudentT, maximum_likelihood


def main() -> None:
    """Make a few distributions and check what they say against what is known."""
    standard = Normal(0.0, 1.0)
    print("P(|z| <= 1.96) =", float(standard.cdf(1.959964) - standard.cdf(-1.959964)))
    assert abs(float(standard.icdf(0.975)) - 1.959964) < 1e-6

    three = Normal(jnp.array([0.0, 1.0, 2.0]), 1.0)  # independent coordinates: one shape, no batches
    total = sum(Normal(float(m), 1.0).log_prob(0.5) for m in range(3))
    assert abs(float(three.log_prob(jnp.full(3, 0.5)) - total)) < 1e-12

    assert abs(float(standard.log_prob(40.0)) + 800.9189385332047) < 1e-10  # a log-density of -800 is -800
    assert float(Poisson(3.0).log_prob(-1.0)) == -jnp.inf  # impossible, not an error

    heavy = StudentT(3.0, 0.0, 1.0)
    print("five sigma: Normal", float(standard.survival(5.0)), "Student's t", float(heavy.survival(5.0)))
    assert heavy.survival(5.0) > 1000 * standard.survival(5.0)

    rows = Gamma(3.0, 2.0).sample(jr.key(0), (50_000,))
    fitted = maximum_likelihood(Gamma(1.0, 1.0), rows)
    print("fitted:", float(fitted.concentration), float(fitted.rate))
    assert abs(float(fitted.mean) - float(rows.mean())) < 1e-9  # the mean statistics are the data's

    score = jax.grad(lambda p: Bernoulli(p).log_prob(1))(0.25)
    assert abs(float(score) - 4.0) < 1e-12  # d log p / dp = 1/p


if __name__ == "__main__":
    main()
