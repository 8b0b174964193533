"""A rolled strip in the plane: scaling keeps the roll, paths and local sums unroll it; towns from flights."""

import numpy as np

import tractable as tr
from tractable import datasets
from tractable.latent.manifold.stress import continuity


def main() -> None:
    roll = datasets.swiss_roll(800)
    embeddings = {
        "classical": tr.latent.classical_mds(roll.features, 2),
        "least stress": tr.latent.metric_mds(roll.features, 2),
        "Isomap": tr.latent.isomap(roll.features, 2),
        "LLE": tr.latent.locally_linear_embedding(roll.features, 2, 12),
        "eigenmaps": tr.latent.laplacian_eigenmaps(roll.features, 2),
    }
    along = {}
    for name, found in embeddings.items():
        along[name] = abs(np.corrcoef(found.points[:, 0], roll.target)[0, 1])
        trust = tr.latent.trustworthiness(roll.features, found.points)
        kept = continuity(roll.features, found.points)
        print(
            f"{name:13} trust {trust:.3f}  continuity {kept:.3f}  first axis along the roll {along[name]:.3f}"
        )
    assert along["Isomap"] > 0.98 > along["classical"]
    assert along["LLE"] > 0.9

    new = datasets.swiss_roll(200, seed=1)
    placed = embeddings["Isomap"].transform(new.features)[:, 0]
    print(f"new rows along the roll: {abs(np.corrcoef(placed, new.target)[0, 1]):.3f}")
    assert abs(np.corrcoef(placed, new.target)[0, 1]) > 0.98

    towns = ("Athens", "Berlin", "Lisbon", "Oslo", "Rome")
    flights = np.array(  # kilometres, along the globe
        [[0, 1803, 2852, 2608, 1052], [1803, 0, 2313, 838, 1184], [2852, 2313, 0, 2738, 1864],
         [2608, 838, 2738, 0, 2008], [1052, 1184, 1864, 2008, 0]]
    )  # fmt: skip
    world = tr.latent.classical_mds(flights, 2, metric="precomputed")
    print("\n", world, sep="")
    for town, (x, y) in zip(towns, world.points):
        print(f"{town:8} {x:8.0f} {y:8.0f}")
    assert world.goodness > 0.99


if __name__ == "__main__":
    main()
