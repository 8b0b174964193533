r"""The affine recursion of Gaussian chains on the host: no loop over times that share a matrix.

Recursion.   $m_{t+1} = L_t m_t + G_t u_t$, of which $H m_t$ is asked: means forward ($u$ readings, $G$ the
             gain, $H = I$), innovations alone ($H = C$), vectors of the pass backward ($G = H = I$).
Blocks.      Over $B$ times with one $L$ and $G$, with $m$ the state at the first of them,
             $H m_{j} = H L^j m + \sum_{i < j} H L^{j - 1 - i} G u_i$: two products of matrices for all blocks
             at once. The states at which blocks begin follow the same recursion under $L^B$, which is done
             the same way.
Cost.        $B p h + d h$ multiplications a time, for $p$ numbers in, $h$ out and $d$ in the state.
"""

from typing import Any

import numpy as np

__all__ = ["apply", "recursion"]

_FEW = 64  # times with one matrix for which a block pays


def apply(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The matrices `([T], d, e)` of each time, or `(T, N, d, e)` of each time and series, of `(T, N, e)`."""
    if matrices.ndim == 4:
        return (matrices @ vectors[..., None])[..., 0]
    if len(matrices) == 1:
        flat = vectors.reshape(-1, vectors.shape[-1]) @ matrices[0].T
        return flat.reshape(*vectors.shape[:-1], matrices.shape[1])
    return vectors @ np.swapaxes(matrices, 1, 2)


def recursion(
    closed: np.ndarray,
    slot: np.ndarray,
    pushed: np.ndarray,
    start: np.ndarray,
    push: np.ndarray | None = None,
    look: np.ndarray | None = None,
) -> np.ndarray:
    """$H m_t$ for $m_0$ = `start` $(N, d)$ and $t = 0 \\dots T$, times first, from `pushed` $(T, N, p)$.

    `slot[t]` names the matrix of `closed` $(S, [N], d, d)$ and of `push` $(S, d, p)$ at time $t$; `look` is
    $H$. Without them $G$ and $H$ are the identity.
    """
    size = start.shape[1] if look is None else len(look)
    answers = np.empty((len(pushed) + 1, len(start), size))
    turned, state = np.swapaxes(closed, -1, -2), start
    for first, stop in _runs(slot[: len(pushed)]):
        one, t = slot[first], first
        if closed.ndim == 3 and stop - first >= _FEW:
            into = None if push is None else push[one]
            blocks, state = _in_blocks(closed[one], into, look, pushed[first:stop], state)
            t = first + len(blocks)
            answers[first:t] = blocks
        for now in range(t, stop):
            answers[now] = state if look is None else state @ look.T
            moved = state @ turned[one] if closed.ndim == 3 else (closed[one] @ state[..., None])[..., 0]
            state = moved + (pushed[now] if push is None else pushed[now] @ push[one].T)
    answers[-1] = state if look is None else state @ look.T
    return answers


def _in_blocks(closed: np.ndarray, push: Any, look: Any, pushed: np.ndarray, start: np.ndarray) -> tuple:
    """The answers of as many times as make whole blocks, and the state after them."""
    eye = np.eye(len(closed))
    G, H = eye if push is None else push, eye if look is None else look
    (size, wide), (high, _) = G.shape, H.shape
    block = 32 if wide * high <= 4 else 16 if wide * high <= 32 else 8
    count, num = len(pushed) // block, len(start)
    powers = [eye]
    for _ in range(block):
        powers.append(powers[-1] @ closed)
    seen = np.stack(powers[:-1]) @ G  # L^j G
    response = np.concatenate([np.zeros((1, high, wide)), H @ seen[:-1]])  # of a reading j times before
    lag = np.arange(block)[:, None] - np.arange(block)
    within = response[np.maximum(lag, 0)].transpose(0, 2, 1, 3).reshape(block * high, block * wide)
    onward = seen[::-1].transpose(1, 0, 2).reshape(size, block * wide)
    inputs = pushed[: count * block].reshape(count, block, num, wide)
    inputs = np.swapaxes(inputs, 1, 2).reshape(count * num, block * wide)
    ends = (inputs @ onward.T).reshape(count, num, size)
    begun = recursion(powers[-1][None], np.zeros(count, int), ends, start)
    shown = (H @ np.stack(powers[:-1])).reshape(block * high, size)
    made = inputs @ within.T + begun[:-1].reshape(count * num, size) @ shown.T
    made = np.swapaxes(made.reshape(count, num, block, high), 1, 2)
    return made.reshape(count * block, num, high), begun[-1]


def _runs(slot: np.ndarray) -> list[tuple[int, int]]:
    """Where each stretch of times with one slot begins and ends."""
    if not len(slot):
        return []
    breaks = (np.flatnonzero(slot[1:] != slot[:-1]) + 1).tolist()
    return list(zip([0, *breaks], [*breaks, len(slot)]))
