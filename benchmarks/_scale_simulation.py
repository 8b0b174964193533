"""A pass over partitions, simulated: workers, the scheduler, and the tree in which statistics are joined.

Workers      take partitions in turn, each its own share of them, in the time that their rows need (with some
             spread, as machines have it).
Scheduler    one after another, hears of each task that ends and sends the next, `task` seconds for each.
Joins        of `fan_in` parts begin when the last part is there; parts of other workers travel first, one
             after another into the joining worker, `latency` and `size / bandwidth` each.
Broadcast    doubles: after $\\log_2 W$ rounds all workers have the parameters.
The constants are those that `python -m benchmarks scale` measures on one machine; nothing here has run on
a hundred.
"""

import heapq
import math
from typing import NamedTuple

import numpy as np


class Costs(NamedTuple):
    """Seconds for a row, a task of the scheduler and a message; bytes per second, and those of statistics."""

    row: float
    task: float = 1e-3
    latency: float = 5e-4
    bandwidth: float = 1e9
    size: float = 1e5
    add: float = 1e-9  # seconds for a byte of statistics that is added
    spread: float = 0.05


class Pass(NamedTuple):
    """Seconds of one pass, and its parts: computing (of the busiest worker), scheduler, broadcast."""

    seconds: float
    computing: float
    scheduling: float
    broadcast: float


def simulate(
    costs: Costs, num_rows: float, num_workers: int, num_partitions: int, fan_in: int = 16, seed: int = 0
) -> Pass:
    """One pass over `num_rows` rows in equal partitions, on workers of one thread each."""
    random = np.random.default_rng(seed)
    each = costs.row * num_rows / num_partitions
    seconds = each * np.exp(costs.spread * random.normal(size=num_partitions) - costs.spread**2 / 2)
    sending = math.ceil(math.log2(max(num_workers, 2))) * (costs.latency + costs.size / costs.bandwidth)
    free = np.full(num_workers, sending)
    events = _Tree(num_partitions, fan_in)
    homes = {(0, i): i * num_workers // num_partitions for i in range(num_partitions)}
    queue: list[tuple[float, tuple[int, int]]] = []
    for i in range(num_partitions):  # a worker works on its own partitions in their order
        worker = homes[0, i]
        free[worker] += seconds[i]
        heapq.heappush(queue, (float(free[worker]), (0, i)))
    busy, scheduler, ended = free.max() - sending, 0.0, 0.0
    while queue:
        now, node = heapq.heappop(queue)
        scheduler = max(scheduler, now) + costs.task
        ready = events.done(node)
        if ready is None:
            ended = scheduler
            continue
        children = events.children(ready)
        worker = homes[children[0]]
        homes[ready] = worker
        foreign = sum(homes[child] != worker for child in children)
        travel = foreign * (costs.latency + costs.size / costs.bandwidth)
        waits = each if now < free[worker] else 0.0  # for the partition that the worker has in hand
        finish = scheduler + waits + travel + len(children) * costs.size * costs.add
        heapq.heappush(queue, (finish, ready))
    return Pass(float(ended), float(busy), costs.task * events.num_tasks, sending)


class _Tree:
    """Which node is ready when another is done."""

    def __init__(self, num_leaves: int, fan_in: int):
        self.fan_in, sizes = fan_in, [num_leaves]
        while len(sizes) == 1 or sizes[-1] > 1:
            sizes.append(-(-sizes[-1] // fan_in))
        self.sizes, self.missing = sizes, {}
        self.num_tasks = sum(sizes)

    def children(self, node: tuple[int, int]) -> list[tuple[int, int]]:
        level, i = node
        last = min((i + 1) * self.fan_in, self.sizes[level - 1])
        return [(level - 1, j) for j in range(i * self.fan_in, last)]

    def done(self, node: tuple[int, int]) -> tuple[int, int] | None:
        """The parent, if this was the last of its children."""
        level, i = node
        if level + 1 == len(self.sizes):
            return None
        parent = (level + 1, i // self.fan_in)
        left = self.missing.get(parent, len(self.children(parent))) - 1
        self.missing[parent] = left
        return parent if left == 0 else None
