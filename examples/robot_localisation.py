"""A robot on a map: its moves choose the transition, its sensors see walls, its belief finds the place."""

import jax.random as jr
import numpy as np

from tractable.statespace import HiddenMarkov

MAP = ["..........",
       ".##.###.#.",
       ".#..#...#.",
       "...##.#...",
       ".#....#.#."]  # fmt: skip
CELLS = [(r, c) for r, row in enumerate(MAP) for c, mark in enumerate(row) if mark == "."]
WAYS = [(-1, 0), (0, 1), (1, 0), (0, -1)]  # the controls: north, east, south, west
SLIP, WRONG = 0.1, 0.05


def model() -> HiddenMarkov:
    """One transition matrix per control; a reading says of each of the four sides whether there is a wall."""
    place = {cell: k for k, cell in enumerate(CELLS)}
    moves = np.zeros((4, len(CELLS), len(CELLS)))
    table = np.zeros((len(CELLS), 16))
    for (r, c), k in place.items():
        walls = [(r + dr, c + dc) not in place for dr, dc in WAYS]
        for u, (dr, dc) in enumerate(WAYS):
            moves[u, k, k] += SLIP
            moves[u, k, place.get((r + dr, c + dc), k)] += 1 - SLIP  # a wall stops the move
        for reading in range(16):
            seen = [bool(reading >> side & 1) for side in range(4)]
            table[k, reading] = np.prod([1 - WRONG if a == b else WRONG for a, b in zip(seen, walls)])
    return HiddenMarkov(np.full(len(CELLS), 1 / len(CELLS)), moves, table)


def drawn(belief: np.ndarray) -> str:
    marks = {cell: " .:-=+*%@"[min(8, int(9 * p))] for cell, p in zip(CELLS, belief)}
    return "\n".join("".join(marks.get((r, c), "#") for c in range(len(MAP[0]))) for r in range(len(MAP)))


def main() -> None:
    robot, steps = model(), 60
    controls = np.random.default_rng(0).integers(0, 4, steps)
    states, readings = robot.sample(jr.key(1), steps, controls=controls)

    filtered = robot.filter(readings, controls=controls)
    smoothed = robot.smooth(readings, controls=controls)
    path, value = robot.viterbi(readings, controls=controls)
    print(drawn(filtered.probabilities[0]), "\n\n" + drawn(filtered.probabilities[-1]))
    print(f"log-likelihood {filtered.log_likelihood:.2f}, that of the best trajectory {value:.2f}")

    true = np.arange(steps), states
    early, late = filtered.probabilities[true][:10].mean(), filtered.probabilities[true][-10:].mean()
    print(f"belief in the true cell: {early:.2f} at first, {late:.2f} at last")
    assert late > 0.5 > filtered.probabilities[true][0]
    assert smoothed.marginals[true].mean() > filtered.probabilities[true].mean()  # hindsight helps
    assert np.mean(path == states) > 0.7
    steps_taken = np.array([CELLS[k] for k in path])
    assert (np.abs(np.diff(steps_taken, axis=0)).sum(1) <= 1).all()  # the trajectory never jumps


if __name__ == "__main__":
    main()
