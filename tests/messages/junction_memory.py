"""The memory that calibrations take: run as a program, it prints predicted and used bytes by model."""

import json
import tracemalloc

import numpy as np

from tractable.messages.junction import junction_tree


def grid_scopes(n):
    """The pairs of neighbours in a square grid."""
    down = [(i * n + j, i * n + n + j) for i in range(n - 1) for j in range(n)]
    return [(i * n + j, i * n + j + 1) for i in range(n) for j in range(n - 1)] + down


MODELS = {
    "small": ([(0,), (1,), (0, 2), (1, 3), (1, 4), (2, 3, 5), (5, 6), (4, 5, 7)], [2] * 8),
    "tree20": ([(0,), *((i // 2, i) for i in range(1, 20))], [2, 3, 4, 5] * 5),
    "tree500": ([(0,), *((max(0, i - 1 - i % 7), i) for i in range(1, 500))], [3] * 500),
    "cyclic60": ([(i, (i + 5) % 60, (i + 1) % 60) for i in range(60)], [2, 3] * 30),
    "grid6": (grid_scopes(6), [3] * 36),
    "grid15": (grid_scopes(15), [2] * 225),
}


def measured(scopes, sizes):
    """Predicted bytes, and the most held at once by one calibration and its marginals."""
    tree, tables = junction_tree(scopes, sizes), [np.zeros([sizes[v] for v in scope]) for scope in scopes]
    used = []
    for _ in range(3):  # the first run brings in code
        tracemalloc.start()
        tree.calibrate(tables).marginals()
        used.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return tree.order.cost.predicted_bytes, used[-1]


if __name__ == "__main__":
    print(json.dumps({name: measured(*model) for name, model in MODELS.items()}))
