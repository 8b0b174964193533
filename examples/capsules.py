"""Capsules route votes by agreement: parts of a whole agree on its pose, from every viewpoint."""

import jax.numpy as jnp
import numpy as np

from tractable.neural import em_routing
from tractable.neural.capsules.scenes import posed_scenes


def main() -> None:
    # Each class is an upper capsule; a part votes for the viewpoint that would put it where it is seen.
    straight = posed_scenes(4, turns=(0.0, 0.0), shifts=(0.0, 0.0), noise=0.0)
    seen = posed_scenes(40, turns=(-3.0, 3.0), shifts=(-0.5, 0.5), noise=0.01, seed=3)
    bottom = np.broadcast_to([0.0, 0.0, 1.0], (4, 4, 1, 3))
    undo = np.linalg.inv(np.concatenate([straight.poses, bottom], axis=2))
    right = 0
    for poses, label in zip(seen.poses, seen.labels):
        votes = np.einsum("pij,cpjk->pcik", poses, undo).reshape(4, 4, 6)
        found = em_routing(votes, jnp.ones(4), inverse_temperatures=(0.1, 0.2, 0.3), floor=1e-4)
        right += int(np.argmax(found.activations)) == label
    print(f"{right} of {len(seen.labels)} scenes recognised, turned by up to 170 degrees")
    print("entropies of the shares of the last scene, step by step:", found.entropies.mean(1).round(3))
    assert right == len(seen.labels)
    assert float(found.entropies[-1].max()) < 0.1


if __name__ == "__main__":
    main()
