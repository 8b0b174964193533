"""Trees of clusters: linkages by hand, cuts, how much a tree tells, divisive trees, pictures."""

import matplotlib

matplotlib.use("Agg")

import numpy as np

import tractable as tr
from tractable import datasets


def main() -> None:
    for linkage in ("single", "complete", "average", "ward", "centroid", "hausdorff"):
        print(f"{linkage:10}", tr.latent.agglomerate([0.0, 1.0, 3.0, 7.0], linkage).heights.round(4))

    wine = datasets.wine()
    X = (wine.features - wine.features.mean(0)) / wine.features.std(0)
    for linkage in ("single", "average", "ward"):
        tree = tr.latent.agglomerate(X, linkage)
        sizes = np.bincount(tree.cut(3))
        print(f"{linkage:8} sizes {sizes}, cophenetic correlation {tree.cophenetic_correlation(X):.3f}")

    tree = tr.latent.agglomerate(X, "ward", optimal_order=True)
    groups = tree.cut(3)
    table = np.array([[np.sum((groups == g) & (wine.target == t)) for t in range(3)] for g in range(3)])
    print("\nClusters of Ward's tree against growers:", table, sep="\n")
    assert table.max(1).sum() / len(X) > 0.9

    split = tr.latent.bisecting_kmeans(X, 6, key=0)
    print("\n", split, sep="")
    agree = np.mean([np.bincount(wine.target[split.cut(3) == g]).max() for g in range(3)]) * 3 / len(X)
    print(f"bisecting 2-means, three clusters: {agree:.2f} of the wines with their grower")
    assert agree > 0.85

    tr.plot(tree, num_clusters=3)
    ax = tr.plot(tree, X, kind="heatmap", num_clusters=3, columns=wine.feature_names)
    assert ax.images[0].get_array().shape == X.shape


if __name__ == "__main__":
    main()
