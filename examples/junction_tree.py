"""A grid of spins: what exact answers will cost, all marginals, evidence, the most probable state, draws."""

import numpy as np

from tractable.messages.elimination import elimination_order
from tractable.messages.junction import junction_tree

SIDE, COUPLING = 12, 0.35


def main() -> None:
    cells = np.arange(SIDE**2).reshape(SIDE, SIDE)
    pairs = [*zip(cells[:, :-1].ravel(), cells[:, 1:].ravel()), *zip(cells[:-1].ravel(), cells[1:].ravel())]
    scopes = [(int(u), int(v)) for u, v in pairs]
    alike = COUPLING * np.array([[1.0, -1.0], [-1.0, 1.0]])
    sizes, tables = [2] * SIDE**2, [alike] * len(scopes)

    for rule in ("min_fill", "min_degree", "best"):
        print(f"{rule:10} {elimination_order(scopes, sizes, rule).cost}")
    tree = junction_tree(scopes, sizes)
    loaded = tree.load(tables)

    # By symmetry every spin is up half of the time; the total is the partition function.
    free = tree.calibrate(loaded)
    print(f"log Z = {free.log_total:.6f}")
    assert np.allclose([row[1] for row in free.marginals()], 0.5)

    # One corner is known: the influence fades with distance, and the best state follows it everywhere.
    corner = tree.calibrate(loaded, {0: 1})
    up = np.array([row[1] for row in corner.marginals()]).reshape(SIDE, SIDE)
    print("up along the diagonal:", up.diagonal().round(3))
    assert (np.diff(up.diagonal()) < 0).all()
    states, value = corner.most_probable()
    assert states.all()
    assert np.isclose(value, COUPLING * len(scopes))

    # Two opposite corners are in no common bag; their joint is exact all the same.
    ends = free.joint([0, SIDE**2 - 1])
    assert np.isclose(ends[1, 1] / ends[1].sum(), up[-1, -1])

    draws = corner.sample(np.random.default_rng(0), 4000)
    assert np.abs(draws.mean(0).reshape(SIDE, SIDE) - up).max() < 5 * 0.5 / np.sqrt(4000)
    print("largest gap of 4000 draws:", np.abs(draws.mean(0).reshape(SIDE, SIDE) - up).max().round(4))


if __name__ == "__main__":
    main()
