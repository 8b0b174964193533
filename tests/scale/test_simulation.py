"""The simulated pass: what must hold whatever the constants are."""

import numpy as np

from benchmarks._scale_simulation import Costs, simulate

FREE = Costs(1e-6, task=0.0, latency=0.0, bandwidth=np.inf, add=0.0, spread=0.0)


def test_without_overhead_workers_share_the_work():
    for count in (1, 2, 10):
        assert abs(simulate(FREE, 1e6, count, 40 * count).seconds - 1.0 / count) < 1e-9


def test_a_pass_lasts_as_long_as_its_scheduler_and_its_busiest_worker():
    costs = Costs(1e-6)
    found = simulate(costs, 1e8, 100, 1600)
    assert found.seconds >= max(found.computing, found.scheduling)
    assert abs(found.scheduling - costs.task * (1600 + 100 + 7 + 1)) < 1e-12
    assert simulate(costs, 1e8, 100, 400).seconds < found.seconds
