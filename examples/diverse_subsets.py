"""Choose points that spread out: a determinantal point process, independent choice, the most diverse five."""

import jax.random as jr
import numpy as np

from tractable.distributions.dpp import DPP
from tractable.distributions.kdpp import KDPP


def nearest_neighbour(points: np.ndarray, mask: np.ndarray) -> float:
    """The mean distance from a chosen point to the nearest other one."""
    chosen = points[mask == 1]
    distances = np.linalg.norm(chosen[:, None] - chosen[None], axis=-1) + 9.0 * np.eye(len(chosen))
    return float(distances.min(1).mean())


def main() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(80, 2))
    L = np.exp(-((points[:, None] - points[None]) ** 2).sum(-1) / (2 * 0.15**2))
    process = DPP(L)
    print(
        f"expected size {process.expected_size:.2f}, standard deviation {np.sqrt(process.size_variance):.2f}"
    )

    # The same probability for each point, with and without repulsion.
    apart = np.asarray(process.sample(jr.key(0), (200,)))
    alone = (rng.uniform(size=(200, 80)) < np.asarray(process.mean)).astype(int)
    gaps = [
        np.array([nearest_neighbour(points, m) for m in draws if m.sum() > 1]) for draws in (apart, alone)
    ]
    error = np.sqrt(sum(g.var(ddof=1) / len(g) for g in gaps))
    print(f"nearest neighbour: {gaps[0].mean():.3f} with repulsion, {gaps[1].mean():.3f} without")
    assert gaps[0].mean() - gaps[1].mean() > 5 * error
    assert apart.sum(1).std() < alone.sum(1).std()

    # Exactly five points: a draw, the greedy subset, and the probability of each.
    five = KDPP(L, 5)
    greedy = five.map_greedy()
    drawn = five.sample(jr.key(2))
    print(f"log-probability: greedy five {five.log_prob(greedy):.2f}, a draw {five.log_prob(drawn):.2f}")
    assert int(drawn.sum()) == 5
    assert five.log_prob(greedy) > five.log_prob(drawn)
    np.testing.assert_allclose(five.mean.sum(), 5.0)


if __name__ == "__main__":
    main()
