r"""`scale.fit`: the models of the library on Dask collections, by the drivers that fit them in memory.

Models.      Whatever has additive statistics (`e_step`, `m_step`) is fitted by EM, whose statistics come from
             the partitions (`DistributedRows`). Functions that fit in one pass (`fit_naive_bayes`,
             `fit_gaussian_discriminant`, `ordinary_least_squares`, `ridge`, `bayesian_linear`, `moments_of`)
             and by Newton's method (`fit_logistic`, `fit_softmax`) have their recipes.
Exactness.   The same rows give the same numbers as in memory, to rounding of the order of the sums; the same
             partitions give the same bits on one worker and on a hundred, whichever of them die.
Checkpoint.  With a path, EM writes its state after each step; the same call goes on from there.
Cost.        Each step: one pass over the rows, one broadcast of the parameters, one tree of statistics.
"""

import os
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from tractable.core.checks import check
from tractable.core.interfaces import HasEM
from tractable.core.iterate import Run, Status
from tractable.core.module import field
from tractable.inference.expectation_maximisation.em import EM
from tractable.inference.fit import fit as fit_here
from tractable.scale.partitions import is_collection
from tractable.scale.rows import DistributedRows

__all__ = ["DistributedRun", "fit", "labelled"]


class DistributedRun(Run):
    """A run with where it was made; `state` is the fitted model."""

    place: str = field(static=True, default="")
    num_partitions: int = field(static=True, default=1)
    repeated: int = field(static=True, default=0, about="passes made again after workers were lost")


def fit(
    model: Any,
    collection: Any,
    algorithm: Any = None,
    *,
    client: Any = None,
    weights: Any = None,
    chunk: int = 16384,
    fan_in: int = 16,
    persist: bool | None = None,
    checkpoint: str | os.PathLike | None = None,
    progress: bool = True,
    **options: Any,
) -> DistributedRun:
    """Fit `model` to a Dask array, bag or data frame (or a tuple such as `(X, y)`), where its rows are.

    `client` is a Dask client, a cluster or the address of a scheduler; without one the current client is
    used, and where there is none the threads of this process. The result says which in `place`. Rows that
    are not in a Dask collection (arrays, paths) are fitted here, `chunk` rows at a time. `options` are those
    of a function that fits.

    >>> import dask.array as da, jax.numpy as jnp, numpy as np
    >>> from tractable.distributions import Mixture, Normal
    >>> rows = da.from_array(np.array([-1.1, -0.9, 0.9, 1.1]), chunks=2)
    >>> found = fit(Mixture([0.5, 0.5], Normal(jnp.array([-1.0, 1.0]), 0.5)), rows)
    >>> found.state.components.loc.round(3).tolist(), found.place
    ([-1.0, 1.0], 'the threads of this process')
    """
    by_em = not isinstance(model, type) and isinstance(model, HasEM)
    recipe = None if by_em else _recipe(model)
    fits = algorithm is None or (by_em and isinstance(algorithm, EM))
    fix = "Other algorithms read rows one after another, or hold them all."
    check(fits, "algorithm", "`EM()`, or left out", type(algorithm).__name__, fix, TypeError)
    if not is_collection(collection):
        if by_em:
            here = {"chunk": chunk, "weights": weights, "checkpoint": checkpoint, "progress": progress}
            run = (algorithm or EM()).fit(model, collection, **here, **options)
            return labelled(run, "this process, in chunks", 1, 0)
        given = options if weights is None else options | {"weights": weights}
        return labelled(_whole(fit_here(model, collection, **given)), "this process", 1, 0)
    held = {"client": client, "chunk": chunk, "fan_in": fan_in, "persist": persist}
    with DistributedRows(collection, weights, **held) as rows:
        if by_em:
            kept = {"checkpoint": checkpoint, "seconds": 0.0, "progress": progress}
            run = (algorithm or EM()).fit(model, rows, **kept, **options)
        else:
            fix = "It is made in one go; only EM has steps to go on from."
            check(checkpoint is None, "checkpoint", "left out for this model", checkpoint, fix)
            assert recipe is not None
            run = _whole(recipe(rows, **options))
        return labelled(run, rows.place.words, rows.num_partitions, rows.place.lost)


def labelled(run: Run, place: str, num_partitions: int, repeated: int) -> DistributedRun:
    """A run, with where it was made."""
    return DistributedRun(run.state, run.trace, run.num_steps, run.code, place, num_partitions, repeated)


def _whole(model: Any) -> Run:
    """A model that was found without steps of its own, as a run."""
    status = getattr(model, "status", None)
    code = status if isinstance(status, Status) else Status.completed
    return Run(model, jnp.zeros(0), jnp.asarray(0), jnp.asarray(int(code)))


def _recipe(model: Any) -> Callable[..., Any]:
    """How a function that fits is done over partitions."""
    from tractable.scale.logistic import logistic_regression, softmax_regression
    from tractable.scale.one_pass import RECIPES  # with the supervised models, which EM does not need

    recipes = RECIPES | {"fit_logistic": logistic_regression, "fit_softmax": softmax_regression}
    name = getattr(model, "__name__", type(model).__name__)
    ours = getattr(model, "__module__", "").startswith("tractable.")
    must = f"one with `e_step` and `m_step`, or one of {', '.join(recipes)}"
    check(ours and callable(model) and name in recipes, "model", must, name, error=TypeError)
    return recipes[name]
