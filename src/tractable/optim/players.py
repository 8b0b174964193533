r"""Several players, each with parameters and a loss of its own: games, adversaries, critics and actors.

Update.      $\theta_p \leftarrow \theta_p - \mathrm{method}_p(\nabla_{\theta_p} \ell_p(\theta_1, \dots))$
             for one player after the other, each of which sees what those before it did: alternating steps,
             which stay bounded on $xy$ where simultaneous ones spiral outwards.
Cost.        One gradient per player and batch; the loop, its checkpoints and its pieces are those of
             `minimise_batches`.
References.  Gidel et al. (2019).
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from tractable.core.checks import check, check_count
from tractable.core.keys import takes_key
from tractable.core.types import ArrayLike, Key
from tractable.optim.averaging import Averaging
from tractable.optim.batch_state import Player
from tractable.optim.batch_updates import words_of
from tractable.optim.objective import Method
from tractable.optim.stochastic import BatchRun, first_order, run_players

__all__ = ["minimise_players"]


@takes_key
def minimise_players(
    losses: Sequence[Callable[..., Any]],
    starts: Sequence[Any],
    data: Any,
    methods: Sequence[Method | None] | None = None,
    *,
    key: Key,
    every: Sequence[int] | None = None,
    batch: int = 32,
    epochs: int = 10,
    weights: ArrayLike | None = None,
    shuffle: bool = True,
    args: tuple = (),
    clip: float | None = None,
    accumulate: int = 1,
    average: Averaging | None = None,
    chunk: int | None = None,
    checkpoint: str | os.PathLike | None = None,
    seconds: float | int = 30.0,
    progress: bool = True,
) -> BatchRun:
    """Each player lowers the mean of its own `loss((parameters, ...), row, *args)` in its own parameters.

    A loss is given the parameters of all players, and moves those of its own. Player `p` moves at every
    `every[p]`-th batch: `(1, 5)` is five steps of the first for one of the second. `run.state` is the tuple
    of parameters, `run.trace` has one column of mean losses per player. Other options, and what a loss that
    names `key` or `step` is given, are those of `minimise_batches`.

    >>> import jax.numpy as jnp
    >>> import jax.random as jr
    >>> from tractable.optim import GradientDescent
    >>> toy = lambda both, row: both[0] * both[1] + 0.5 * both[0] ** 2
    >>> gains = lambda both, row: -both[0] * both[1] + 0.5 * both[1] ** 2
    >>> run = minimise_players((toy, gains), (1.0, 1.0), jnp.zeros((8, 1)), [GradientDescent(0.1)] * 2,
    ...                        key=jr.key(0), batch=8, epochs=100)
    >>> [abs(float(x)) < 1e-3 for x in run.state]
    [True, True]
    """
    count = len(losses)
    check(count > 0, "losses", "a loss for each player", "none")
    check(len(starts) == count, "starts", f"as many as losses ({count})", len(starts))
    methods = [None] * count if methods is None else methods
    check(len(methods) == count, "methods", f"as many as losses ({count})", len(methods))
    turns = [1] * count if every is None else [check_count("every", each) for each in every]
    check(len(turns) == count, "every", f"as many as losses ({count})", len(turns))
    players = tuple(
        Player(first_order(method), loss, None, turn, words_of(loss))
        for method, loss, turn in zip(methods, losses, turns)
    )
    return run_players(
        players, tuple(starts), data, key=key, batch=batch, epochs=epochs, weights=weights, shuffle=shuffle,
        args=args, clip=clip, accumulate=accumulate, average=average, chunk=chunk, checkpoint=checkpoint,
        seconds=seconds, progress=progress, together=True,
    )  # fmt: skip
