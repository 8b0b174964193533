r"""Gaussian process classification of several classes: one function per class behind a softmax, by Laplace.

Model.       $f_c \sim GP(0, k)$ independent, $p(y_n = c \mid f) = e^{f_c(x_n)} / \sum_{c'} e^{f_{c'}(x_n)}$.
Posterior.   By Laplace's method (`gp.laplace`, `gp.softmax`): the mode, its curvature and the evidence.
Probability. The softmax averaged over the Gaussian of $f(x_*)$ with the same 512 points for each row: better
             than 512 draws, and the same answer each time.
Cost.        $O(C n^3)$ per Newton step, about ten of them.
References.  Rasmussen and Williams (2006) section 3.5, algorithm 3.4; Williams and Barber (1998).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from tractable.bijections.support import Rebuild
from tractable.core.checks import check_count, has_values
from tractable.core.iterate import Run
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.rows import Rows
from tractable.core.types import Array, Float, Scalar
from tractable.gp.ascent import Searched, ascend
from tractable.gp.laplace import Sites, dual_weights, evidence_at, find_mode
from tractable.gp.points import Observed, Table, matrix_size, observe, rowwise
from tractable.gp.softmax import Classes, SoftmaxFactor, slope_of_gram
from tractable.optim.minimise import Minimum

__all__ = ["MulticlassFit", "MulticlassPosterior", "fit_multiclass", "multiclass_posterior"]

_POINTS = 512
_SHORT = 1e-6  # a Newton step, relative to the largest value, after which there is none
_NEW_ROWS = 512  # at once: each is multiplied by a matrix per class


class MulticlassPosterior(Searched, Module):
    """One function per class after seeing labels."""

    kernel: Any
    observed: Observed = field(show=False)
    weights: Float[Array, "c n"] = field(show=False)  # dual: the mean at the rows is $a_c K$
    factor: SoftmaxFactor = field(show=False)
    log_evidence: Scalar
    run: Run = field(show=False)

    def latent(self, X: Table) -> tuple[Array, Array]:
        """The mean `(n, c)` and covariance `(n, c, c)` of the functions at each row."""
        return rowwise(_latent, self, X, self.observed.X.shape[1], _NEW_ROWS)

    def probability(self, X: Table) -> Any:
        """The probability of each class at each row."""
        found = rowwise(_probability, self, X, self.observed.X.shape[1], _NEW_ROWS)
        return np.asarray(found) if has_values(found) else found


class MulticlassFit(Searched, Module):
    """The kernel found, the functions at the rows that it was found from, and how the search went."""

    kernel: Any
    log_evidence: Scalar
    run: Minimum = field(show=False)
    X: Float[Array, "n d"] = field(show=False)  # padded
    weights: Float[Array, "c n"] = field(show=False)  # dual


def multiclass_posterior(
    kernel: Any,
    X: Table,
    y: Any = None,
    num_classes: int | None = None,
    weights: Any = None,
    *,
    near: MulticlassFit | None = None,
) -> MulticlassPosterior:
    """The functions of the classes after seeing labels 0, 1, ...; a row of weight two counts twice.

    The search for the mode begins at the functions that `near`, a fit to some of the rows, predicts.
    """
    observed, classes = _labelled(X, y, num_classes, weights)
    return _posterior(kernel, observed, classes, None if near is None else (near.X, near.weights))


def fit_multiclass(
    kernel: Any,
    X: Table,
    y: Any = None,
    num_classes: int | None = None,
    weights: Any = None,
    *,
    max_steps: int = 30,
    tol: float = 1e-2,
    stop: str = "gradient",
    spread: float | int | None = None,
) -> MulticlassFit:
    """The kernel whose hyperparameters maximise the approximate evidence, from its own values.

    It ends where the gradient is below `tol`, or with `stop="value"` where a step gains less. With `spread`
    the free numbers are normal about their start, with that standard deviation (`gp.ascent`).
    """
    observed, classes = _labelled(X, y, num_classes, weights)

    def evaluate(point: Array, rebuild: Rebuild, memory: Any) -> tuple[Array, Array, Any]:
        return _value_and_slope(point, rebuild, observed.X, classes, memory[0])

    none = _no_sites(classes)
    options = {"max_steps": max_steps, "tol": tol, "stop": stop, "spread": spread}
    found, value, run, (_, dual) = ascend(evaluate, kernel, (none, none.shift), **options)
    return MulticlassFit(found, value, run, observed.X, dual)


def _labelled(X: Table, y: Any, num_classes: int | None, weights: Any) -> tuple[Observed, Classes]:
    count = None if num_classes is None else check_count("num_classes", num_classes, least=2)
    rows = Rows.of(X, y, weights, target="class", num_classes=count, absent="keep")
    observed = observe(rows, target="class", size=_size)
    labels = np.asarray(observed.y) if has_values(observed) else observed.y
    codes = jnp.asarray(labels[None] == np.arange(rows.num_classes)[:, None], observed.y.dtype)
    return observed, Classes(codes, observed.weights)


def _size(num_rows: int) -> int:
    """Above 128 rows two sizes for each doubling: here computing takes as long as compiling does."""
    size = matrix_size(num_rows)
    return size * 3 // 4 if 128 < num_rows <= size * 3 // 4 else size


def _no_sites(classes: Classes) -> Sites:
    zeros = jnp.asarray(np.zeros(classes.codes.shape, classes.codes.dtype))
    return Sites(zeros, zeros)


@program
def _value_and_slope(
    free: Array, rebuild: Rebuild, X: Array, classes: Classes, start: Sites
) -> tuple[Scalar, Array, tuple[Sites, Array]]:
    """The evidence at free numbers, its gradient, and the sites and dual weights there."""
    gram, pull = jax.vjp(lambda point: rebuild(point)[0].gram(X), free)
    dual = find_mode(gram, classes, start, tol=_SHORT).state
    value, factor = evidence_at(gram, classes, dual)
    slope = slope_of_gram(gram, classes, dual, factor)
    return value, pull(slope)[0], (classes.sites(dual @ gram), dual)


@program
def _posterior(
    kernel: Any, observed: Observed, classes: Classes, near: tuple[Array, Array] | None
) -> MulticlassPosterior:
    gram = kernel.gram(observed.X)
    start = _no_sites(classes) if near is None else classes.sites(near[1] @ kernel.gram(near[0], observed.X))
    held = jax.lax.stop_gradient((gram, classes, start))
    run = find_mode(*held, tol=_SHORT**0.5)
    sites = classes.sites(run.state @ held[0])
    # one step more squares the error, and makes the mode depend on the kernel as it does
    dual = dual_weights(gram, classes.factor(gram, sites.precision), sites.shift)
    value, factor = evidence_at(gram, classes, dual)
    return MulticlassPosterior(kernel, observed, dual, factor, value, run)


@program
def _latent(post: MulticlassPosterior, X: Array) -> tuple[Array, Array]:
    cross = jnp.where(post.observed.present[:, None], post.kernel.gram(post.observed.X, X), 0.0)
    taken = post.factor.blocks @ cross
    own = post.kernel.diagonal(X)[None] - (taken * cross[None]).sum(1)
    half = jax.lax.map(post.factor.whole.half_solve, taken)
    shared = jnp.einsum("anm,bnm->mab", half, half)
    return (post.weights @ cross).T, shared + jax.vmap(jnp.diag, 1)(own)


@program
def _probability(post: MulticlassPosterior, X: Array) -> Array:
    mean, cov = _latent(post, X)
    values, vectors = jnp.linalg.eigh(cov)
    roots = vectors * jnp.sqrt(jnp.maximum(values, 0.0))[:, None]  # below zero by rounding alone
    draws = jnp.asarray(_normal_points(mean.shape[1]), mean.dtype)
    functions = mean[:, None] + jnp.einsum("ncd,sd->nsc", roots, draws)
    return jax.nn.softmax(functions, axis=-1).mean(1)


def _normal_points(dim: int) -> np.ndarray:
    """Evenly spread points of a standard normal, in pairs of opposite signs."""
    from scipy.stats import qmc

    uniform = qmc.Sobol(dim, scramble=True, rng=0).random(_POINTS // 2)
    points = ndtri(uniform)
    return np.concatenate([points, -points])
