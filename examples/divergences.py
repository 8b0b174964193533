"""Divergences: both directions of KL, supports that do not meet, and transport with a certificate."""

import jax
import numpy as np

from tractable.distributions import (
    Mixture,
    Normal,
    PointMass,
    StudentT,
    jensen_shannon,
    kl,
    optimal_transport,
    sinkhorn,
    wasserstein,
)
from tractable.distributions.divergence import kl_estimate
from tractable.distributions.transport import transport_cost
from tractable.inference import forward_kl_fit, reverse_kl_fit


def main() -> None:
    """Compare distributions and check the numbers that are known."""
    fair, bent = np.array([0.5, 0.5]), np.array([2 / 3, 1 / 3])
    print(f"two coins, both ways: {kl(fair, bent):.7f} {kl(bent, fair):.7f}")
    assert np.isclose(kl(fair, bent), 0.0588915)
    assert np.isclose(kl(bent, fair), 0.0566330)
    print("no closed form:", kl_estimate(StudentT(5.0), Normal(0.0, 1.0)))

    # Covering or seeking: the normal nearest to two bumps depends on the direction.
    bumps = Mixture(np.array([0.5, 0.5]), Normal(np.array([-3.0, 3.0]), 1.0))
    cover = forward_kl_fit(Normal(0.5, 1.0), bumps).distribution
    seek = reverse_kl_fit(bumps, [Normal(-2.0, 1.0), Normal(2.0, 1.0)])
    print(f"covering: mean {cover.loc:.3f}, variance {cover.variance:.3f}; seeking: {seek}")
    assert np.isclose(cover.variance, 10.0)
    assert sorted(round(float(fit.distribution.loc)) for fit in seek.optima) == [-3, 3]

    # Supports that do not meet: KL is infinite, Jensen-Shannon is flat, transport knows the distance.
    here = PointMass(0.0)
    assert kl(here, PointMass(0.3)) == np.inf
    assert np.isclose(jensen_shannon(here, PointMass(0.3)), np.log(2))
    assert jax.grad(lambda t: jensen_shannon(here, PointMass(t)))(0.3) == 0.0
    assert np.isclose(jax.grad(lambda t: wasserstein(here, PointMass(t)))(0.3), 1.0)

    # Exact transport carries its proof; entropic transport carries its verdict.
    rng = np.random.default_rng(0)
    cost = transport_cost(rng.normal(size=(60, 2)), rng.normal(size=(50, 2)) + 1.0)
    exact, soft = optimal_transport(cost), sinkhorn(cost, epsilon=0.05)
    print(f"exact cost {exact.cost:.4f} (duality gap {abs(exact.gap):.1e}); {soft}")
    assert abs(exact.gap) < 1e-9
    assert exact.cost <= soft.transport_cost <= exact.cost + 0.05 * np.log(60 * 50)


if __name__ == "__main__":
    main()
