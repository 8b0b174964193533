"""Which points belong together? Labels of a Gaussian mixture, all parameters integrated out."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.iterate import run
from tractable.inference import CollapsedMixtureGibbs


def main() -> None:
    random = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [60, 40, 20])
    centres = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    rows = centres[truth] + random.normal(size=(120, 2))
    sampler = CollapsedMixtureGibbs(rows, 3)

    @jax.jit
    def chain(key):
        key_start, key_init, key_run = jr.split(key, 3)
        state = sampler.init(sampler.log_density, sampler.start(key_start), key_init)

        def step(state, key):
            state, _ = sampler.step(sampler.log_density, state, key)
            return state, (state.position["labels"], state.log_density)

        return run(step, state, jr.split(key_run, 600)).trace

    labels, values = map(np.asarray, chain(jr.key(0)))
    labels, values = labels[100:], values[100:]
    together = (labels[:, :, None] == labels[:, None, :]).mean(0)
    same = truth[:, None] == truth[None]
    print(f"log p(rows, labels): {values.mean():.1f} on average, {values.max():.1f} at best")
    print(f"together: {together[same].mean():.3f} within clusters, {together[~same].mean():.3f} across")
    assert together[same].mean() > 0.85
    assert together[~same].mean() < 0.1

    doubtful = np.argmin(np.abs(together[:, :60].mean(1) - 0.5))
    print(f"most doubtful: row {doubtful} at {rows[doubtful].round(2)}")
    best = jnp.asarray(labels[values.argmax()])
    density = sampler.predictive({"labels": best})
    fresh = centres[truth] + random.normal(size=(120, 2))
    score = float(np.asarray(density.log_prob(fresh)).mean())
    squared = ((fresh[:, None] - centres[None]) ** 2).sum(-1)
    exact = np.log((np.array([60, 40, 20]) / 120 * np.exp(-0.5 * squared)).sum(1) / (2 * np.pi)).mean()
    print(f"log-density of new rows {score:.3f}, of the true mixture {exact:.3f}")
    assert exact - 0.25 < score < exact + 0.05


if __name__ == "__main__":
    main()
