"""EM on a mixture of Poissons: one start climbs, restarts keep the best, and the climb is taken apart."""

import jax.numpy as jnp
import numpy as np

import tractable as tr
from tractable.distributions import Mixture, Poisson
from tractable.inference import EM, best_of
from tractable.inference.expectation_maximisation.report import decompose


def main() -> None:
    generator = np.random.default_rng(3)
    counts = np.r_[generator.poisson(2.0, 3000), generator.poisson(9.0, 2000)].astype(float)
    start = Mixture([0.5, 0.5], Poisson(jnp.array([1.0, 5.0])))

    run = tr.fit(start, counts, EM(tol=1e-10))
    print(run)
    print("rates", run.state.components.rate, "weights", run.state.weights)
    assert (np.diff(run.values) > -1e-8).all()
    assert np.allclose(run.state.components.rate, [2.0, 9.0], atol=0.3)

    streamed = tr.fit(start, counts, EM(tol=1e-10), chunk=1000)
    assert np.allclose(streamed.values, run.values, rtol=1e-12)

    starts = [Mixture([0.5, 0.5], Poisson(jnp.array([a, b]))) for a, b in ((4.9, 5.0), (1.0, 12.0))]
    best = best_of(starts, counts, EM(tol=1e-10))
    assert abs(best.values[-1] - run.values[-1]) < 1e-3

    print(decompose(run.state, start, counts))
    assert decompose(run.state, start, counts).divergence > 0


if __name__ == "__main__":
    main()
