"""Rare events three ways: a wider proposal, a shifted one, and levels that find the shift by themselves."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.inference import importance, monte_carlo
from tractable.inference.weighted.adaptive_importance import rare_event
from tractable.inference.weighted.importance import relative_variance

EXACT = 2.866515719235352e-07  # P(x > 5) for a standard normal


def beyond(x):
    return x > 5.0


def main() -> None:
    standard = Normal(0.0, 1.0)
    plain = monte_carlo(beyond, standard, key=jr.key(0), num_draws=20_000)
    print(f"plain Monte Carlo        {plain}")
    assert plain.value == 0  # with this many draws the event is not seen at all

    for name, proposal in (("widened", Normal(0.0, 4.0)), ("shifted", Normal(5.0, 1.0))):
        post = importance(standard, proposal, key=jr.key(1), num_draws=20_000)
        found = post.expectation(beyond)
        print(f"{name:<25}{found}")
        assert abs(found.value - EXACT) < 5 * found.standard_error
        # the weights alone may be bad: what counts is their tail inside the event
        print(f"{'':<25}k_hat of the weights {post.k_hat:.2f}, of the event {post.k_hat_of(beyond):.2f}")
        assert post.k_hat_of(beyond) < 0.7

    # the same number in the language of design: draws needed for a relative error of one per cent
    for name, proposal in (("plain", None), ("widened", Normal(0.0, 4.0)), ("shifted", Normal(5.0, 1.0))):
        draws = relative_variance(lambda x: 1.0 * (x > 5.0), standard, proposal) / 0.01**2
        print(f"{name:<25}{float(draws):.3g} draws")

    # a sum of ten loads exceeds a limit: the levels find the direction
    loads = Gaussian(jnp.zeros(10), jnp.eye(10))
    event = rare_event(lambda x: x.sum() / np.sqrt(10), 5.0, loads, key=jr.key(2), num_draws=4000)
    print(event)
    assert event.status.ok
    assert abs(event.probability.value - EXACT) < 5 * event.probability.standard_error


if __name__ == "__main__":
    main()
