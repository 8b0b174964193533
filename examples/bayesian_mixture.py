"""How many clusters? A Bayesian mixture with sparse weights empties the components it does not need."""

import jax.random as jr
import numpy as np

from tractable.inference import bayesian_mixture


def main() -> None:
    random = np.random.default_rng(1)
    centres, sizes = np.array([[4.0, 0.0], [-4.0, 1.0], [0.0, -5.0]]), (80, 50, 30)
    rows = np.concatenate([c + random.normal(size=(n, 2)) for c, n in zip(centres, sizes)])

    run = bayesian_mixture(rows, 8, key=jr.key(0))
    model = run.state
    print(run)
    print("rows per component:", np.asarray(model.expected_counts).round(1))
    assert run.status.ok
    assert model.num_active() == 3
    assert (np.diff(run.values) > -1e-9 * np.abs(run.values[:-1])).all()  # the bound never falls

    active = np.asarray(model.expected_counts) > 1
    found = np.asarray(model.components.loc)[active]
    nearest = [np.abs(found - c).max(1).min() for c in centres]
    assert max(nearest) < 0.5

    predictive = model.predictive()
    fresh = np.concatenate([c + random.normal(size=(n, 2)) for c, n in zip(centres, sizes)])
    score = float(np.asarray(predictive.log_prob(fresh)).mean())
    share = np.array(sizes) / sum(sizes)
    squared = ((fresh[:, None] - centres[None]) ** 2).sum(-1)
    truth = np.log((share * np.exp(-0.5 * squared)).sum(1) / (2 * np.pi)).mean()
    print(f"log-density of new rows: {score:.3f}, of the true mixture {truth:.3f}")
    assert truth - 0.2 < score < truth


if __name__ == "__main__":
    main()
