"""PageRank: four pages, dangling and separate webs, readers with favourites, a random surfer, a large web."""

import time

import numpy as np

import tractable as tr


def main() -> None:
    four = [(1, 2), (1, 3), (2, 1), (2, 3), (2, 4), (3, 1), (3, 3), (4, 2), (4, 3)]
    web = [(f"page {i}", f"page {j}") for i, j in four]
    print(tr.statespace.pagerank(web, teleport=0))
    print(tr.statespace.pagerank(web))
    assert np.allclose(tr.statespace.pagerank(web, teleport=0), np.array([5, 3, 8, 1]) / 17)

    dangling = [(0, 2), (0, 3), (1, 1), (1, 3), (2, 3)]  # page 3 links to nothing
    for rule in ("uniform", "others", "absorb"):
        print(f"{rule:8}", tr.statespace.pagerank(dangling, 0, dangling=rule).scores.round(4))

    apart = [(0, 0), (0, 1), (1, 1), (2, 3), (3, 2), (3, 3)]
    alone = tr.statespace.pagerank(apart, teleport=0)
    print("\n", alone, sep="")
    assert not alone.verdict
    assert tr.statespace.pagerank(apart).verdict

    surfed = tr.statespace.simulate_surfer(apart, key=0, num_steps=500)
    print("surfers:", surfed.round(3), "exact:", tr.statespace.pagerank(apart).scores.round(3))

    rng = np.random.default_rng(0)
    pages, links = 100_000, 1_000_000
    edges = rng.integers(0, pages, links), (pages * rng.random(links) ** 3).astype(int)
    readers = np.zeros((3, pages))
    readers[[0, 1, 2], [7, 70_000, 99_999]] = 1.0
    start = time.perf_counter()
    found = tr.statespace.pagerank(edges, personalisation=readers, num_pages=pages)
    print(f"\n{links} links, three readers: {time.perf_counter() - start:.2f} s. {found.verdict}")
    assert found.verdict
    assert found.error_bound <= 1e-10


if __name__ == "__main__":
    main()
