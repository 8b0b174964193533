"""The recursion of means by blocks: what a loop over times gives, for all shapes and matrices in turn."""

import numpy as np
import pytest

from tractable.messages.gaussian_recursion import recursion


@pytest.mark.cheap
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 1, 1, 3), (3, 2, 3, 1), (5, 1, 5, 2)])
@pytest.mark.parametrize("times", [0, 1, 63, 64, 700])
def test_blocks_give_what_a_loop_over_times_gives(sizes, times):
    size, wide, high, num = sizes
    rng = np.random.default_rng(times + size)
    closed = rng.normal(size=(3, size, size))
    closed /= 1.05 * np.abs(np.linalg.eigvals(closed)).max(1)[:, None, None]
    push, look = rng.normal(size=(3, size, wide)), rng.normal(size=(high, size))
    pushed, start = rng.normal(size=(times, num, wide)), rng.normal(size=(num, size))
    slot = np.where(np.arange(times) < 20, np.arange(times) % 3, (np.arange(times) > 400).astype(int))
    states = [start]
    for t in range(times):
        states.append(states[-1] @ closed[slot[t]].T + pushed[t] @ push[slot[t]].T)
    found = recursion(closed, slot, pushed, start, push, look)
    np.testing.assert_allclose(found, np.stack(states) @ look.T, rtol=0, atol=1e-11)
    forced = np.einsum("tnp,tdp->tnd", pushed, push[slot])
    np.testing.assert_allclose(recursion(closed, slot, forced, start), np.stack(states), rtol=0, atol=1e-11)
