"""Divergences: two directions of KL, separated supports, and transport."""

import jax.numpy as jnp
import numpy as np

from tractable.distributions import (
    Mixture,
    Normal,
    forward_kl_fit,
    jensen_shannon,
    kl,
    optimal_transport,
    wasserstein,
)


def main() -> None:
    """Compare distributions and check the numbers that are known."""
    fair, bent = np.array([0.5, 0.5]), np.array([2 / 3, 1 / 3])
    print("KL of two coins, both ways:", float(kl(fair, bent)), float(kl(bent, fair)))
    assert abs(kl(fair, bent) - 0.0588915) < 1e-7
    assert abs(kl(bent, fair) - 0.0566330) < 1e-7

    # Mass covering: the Gaussian nearest to two separated bumps has their mean and their whole spread.
    bumps = Mixture(jnp.array([0.5, 0.5]), Normal(jnp.array([-3.0, 3.0]), 1.0))
    cover = forward_kl_fit(Normal(0.5, 1.0), bumps).distribution
    print("covering fit:", float(cover.loc), float(cover.scale) ** 2)
    assert abs(cover.loc) < 1e-6
    assert abs(cover.scale**2 - 10) < 1e-5

    # Supports that do not meet: KL is infinite, Jensen-Shannon saturates, transport still sees the distance.
    here, there = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert kl(here, there) == np.inf
    assert abs(jensen_shannon(here, there) - np.log(2)) < 1e-12
    assert abs(wasserstein(Normal(0.0, 1.0), Normal(3.0, 1.0)) - 3) < 1e-8

    plan = optimal_transport(jnp.array([[0.0, 1.0], [1.0, 0.0]]), here, fair)
    assert abs(plan.cost - 0.5) < 1e-9


if __name__ == "__main__":
    main()
