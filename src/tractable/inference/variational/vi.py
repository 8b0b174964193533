r"""Variational inference: the member of a family that is closest to a posterior, with a measured verdict.

Problem.     $\max_\lambda E_{q_\lambda}[\log p(x, z) - \log q_\lambda(z)]$, or the bound of order `alpha`;
             $z$ is any module or pytree, moved as one real vector through `bijections.unconstrain`.
Methods.     `adam`: stochastic ascent with a ladder of step sizes; it has converged when a smaller step size
             gains nothing more, by `tol` nats or two standard errors (see `inference.variational.ascent`).
             The answer is the average of the last iterates. `lbfgs`: fixed, moment-matched draws make the
             bound a deterministic function, exact for a Gaussian posterior. `natural`: precisions and means
             by the expected Hessian and gradient.
Verdict.     By the importance weights of fresh draws and of stretched versions of the answer
             (`inference.weighted.second_look`): what mass it misses, the tail shape $\hat k$, other modes.
Mini-batch.  With `batch` rows a time, the log-likelihood counts $N/|\mathrm{batch}|$ times, the prior once.
Cost.        `num_draws` gradients per step, a block of steps per dispatch; one program per density, family,
             shapes.
References.  Kucukelbir et al. (2017); Dhaka et al. (2020), "Robust, accurate stochastic optimization for
             variational inference"; Giordano, Ingram and Broderick (2024), "Black box variational inference
             with a deterministic objective"; Yao et al. (2018), "Yes, but did it work?".
"""

import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import check, check_count, check_length, check_option
from tractable.core.keys import takes_key
from tractable.core.programs import program
from tractable.core.types import Array, Key, PyTree, Scalar
from tractable.inference.joint import Statement, as_stated
from tractable.inference.posterior import with_target
from tractable.inference.target import FlatTarget, freed
from tractable.inference.variational.ascent import Ascent, climb, moment_matched, solve
from tractable.inference.variational.families import Flow, FullRank, MeanField, VariationalFamily, make_family
from tractable.inference.variational.judgement import JudgedDraws
from tractable.inference.variational.surrogates import check_gradient
from tractable.inference.variational.variance_reduction import Factors
from tractable.inference.weighted.second_look import second_look
from tractable.inference.weighted.weights import mean_estimate

__all__ = ["VariationalPosterior", "vi"]

_FACTORS = "`Factors` of a real vector `start` alone: without supports, prior and data"
METHODS = ("adam", "adagrad", "sgd", "natural", "lbfgs")


class VariationalPosterior(JudgedDraws):
    """A variational answer: the fitted member, its bound, and how far to trust it."""

    elbo_standard_error: Scalar
    trace: Any  # of the bound: its mean over each block of steps; for `lbfgs`, its value after each step
    refused: Any  # steps not taken, because the bound or its gradient was not finite
    _shown = (
        "family",
        "elbo",
        "elbo_standard_error",
        "log_evidence",
        "k_hat",
        "efficiency",
        "num_steps",
        "refused",
    )

    def log_prob(self, x: PyTree) -> Scalar:
        """The log-density of one `x` with the structure of `start`."""
        leaves, structure = jax.tree.flatten(x)
        same = structure == self.rebuild.structure
        check(same, "x", f"of the structure of `start`, {self.rebuild.structure}", f"{structure}")
        return _log_prob(self.family, self.rebuild, [jnp.asarray(leaf) for leaf in leaves])


@takes_key
def vi(
    log_density: Callable[..., Any] | None = None,
    start: PyTree = None,
    *,
    key: Key,
    prior: Any = None,
    likelihood: Callable[..., Any] | None = None,
    observed: Any = None,
    family: str | VariationalFamily = "full_rank",
    method: str = "adam",
    gradient: str = "auto",
    alpha: float | int = 1.0,
    num_draws: int | None = None,
    args: tuple = (),
    batch: int | None = None,
    log_prior: Callable[..., Any] | None = None,
    supports: Any = None,
    learning_rate: float | Callable[[Any], Any] | None = None,
    tol: float | None = 0.01,
    max_steps: int = 50_000,
    block: int = 100,
    num_eval: int = 2000,
    checkpoint: str | os.PathLike | None = None,
    progress: bool = True,
) -> VariationalPosterior:
    r"""Fit `family` to the density $\propto$ `exp(log_density(x, *args) + log_prior(x))` of `x` like `start`.

    - Or to that of `prior` and `likelihood`, as in `mcmc`.
    - `start`: a float array, a dict or other pytree of floats, or a module whose fields name their supports
      (`supports` adds or replaces them); the density is that of the constrained values.
    - `family`: one of `families.FAMILIES`, or a `VariationalFamily` over the free numbers.
    - `method`: "adam", "adagrad", "sgd" (the gradient itself), "natural" (mean field and full rank), or
      "lbfgs" (fixed draws; no mini-batches).
    - `gradient`: "sticking", "pathwise", "entropy", or for densities without a derivative "score" (with a
      leave-one-out baseline), "score_control" (with the score as a control variate), "rao_blackwell" (mean
      field: only what touches an entry; give `Factors` as `log_density` to say what that is); "auto" is
      "sticking" where the family's density is cheap, else "pathwise".
    - `alpha`: the order of the bound; 1 is the ELBO, 0 the importance-weighted bound of `num_draws` weights.
    - `batch`: rows per step, drawn with replacement from the leading axis of all `args`; then `log_density`
      is the log-likelihood, a sum over rows, and `log_prior` is required.
    - `learning_rate`: the first step size; by default 0.05, for flows 0.01, for "natural" 0.2, for "adagrad"
      0.5. Or a schedule, a function of the step such as `optim.PowerLaw(0.1, 0.7)`.
    - `tol`: in nats; `None` makes `max_steps` steps and judges nothing. For "lbfgs", of the gradient
      (times $10^{-4}$).

    >>> post = vi(lambda x: -0.5 * ((x - 3.0) ** 2).sum(), jnp.zeros(2), key=jr.key(0), method="lbfgs")
    >>> post.family.mean.round(6).tolist(), round(float(post.elbo), 6)       # log(2 pi), the exact evidence
    ([3.0, 3.0], 1.837877)
    """
    key_family, key_climb, key_judge = jr.split(key, 3)
    parts = (prior, likelihood, args, observed, supports)
    density, start, args, supports = as_stated(log_density, start, *parts)
    if batch is not None and isinstance(density, Statement):
        density, log_prior = density.divided()
    _check_batch(method, args, batch, log_prior)
    free, target = FlatTarget.of(density, start, args, log_prior, supports)
    member = _member(family, free, key_family)
    parameters, family_of = unconstrain(member)
    num_draws = _num_draws(num_draws, method, member)
    _check_options(method, member, tol, max_steps, learning_rate, alpha, checkpoint)
    gradient = ("sticking" if member.has_cheap_density else "pathwise") if gradient == "auto" else gradient
    check_gradient(gradient, member, num_draws, alpha)
    if isinstance(density, Factors):
        plain = eqx.is_array_like(start) and jnp.ndim(start) == 1 and supports is None
        check(plain and log_prior is None and not args, "log_density", _FACTORS, "more than that")
    if method == "lbfgs":
        noise = moment_matched(key_climb, num_draws, member.noise_dim, free.dtype)
        limit = 1e-4 * (0.01 if tol is None else tol)
        found = solve(target, family_of, parameters, noise, alpha=alpha, max_steps=max_steps, tol=limit)
        ended = (found.state, -found.values, found.num_steps, np.asarray(0), found.code)
    else:
        limit = None if tol is None else jnp.asarray(tol, free.dtype)
        schedule = learning_rate if callable(learning_rate) else None
        rate = _first_rate(method, member)
        if learning_rate is not None and not callable(learning_rate):
            rate = learning_rate
        options = (method, gradient, float(alpha), num_draws, batch, block)
        ascent = Ascent(target, family_of, limit, schedule, *options)
        options = {"max_steps": max_steps, "checkpoint": checkpoint, "progress": progress}
        made = climb(ascent, parameters, key_climb, rate=rate, **options)
        ended = (made.state.answer, made.values, made.num_steps, made.state.refused, made.code)
    return _judged(
        target, family_of(ended[0])[0], key_judge, check_count("num_eval", num_eval, 25), ended[1:]
    )


def _member(family: str | VariationalFamily, free: Array, key: Key) -> VariationalFamily:
    if isinstance(family, VariationalFamily):
        length = f"over {free.size} free numbers, as `start` has"
        check(family.dim == free.size, "family", length, f"{family.dim}")
        return family
    return make_family(family, free, key=key)


def _first_rate(method: str, member: VariationalFamily) -> float:
    if method in ("natural", "adagrad"):
        return 0.2 if method == "natural" else 0.5
    return 0.01 if isinstance(member, Flow) else 0.05


def _num_draws(num_draws: int | None, method: str, member: VariationalFamily) -> int:
    check_option("method", method, METHODS)
    if num_draws is None:
        return 8 if method != "lbfgs" else max(128, 4 * member.noise_dim)
    return check_count("num_draws", num_draws)


def _check_options(
    method: str, member: VariationalFamily, tol: Any, steps: Any, rate: Any, alpha: float | int, file: Any
) -> None:
    check_count("max_steps", steps)
    check(callable(rate) or rate is None or rate > 0, "learning_rate", "positive, or a schedule", rate)
    check(not callable(rate) or method != "lbfgs", "learning_rate", 'a number with method="lbfgs"', rate)
    check(alpha >= 0, "alpha", "zero or positive", alpha)
    check(tol is None or tol > 0, "tol", "positive, or None for a fixed number of steps", tol)
    fits = method != "natural" or isinstance(member, MeanField | FullRank)
    check(fits, "family", 'mean field or full rank with method="natural"', type(member).__name__)
    check(method != "natural" or alpha == 1, "alpha", '1 (the ELBO) with method="natural"', alpha)
    check(method != "lbfgs" or file is None, "checkpoint", 'None with method="lbfgs", which is short', file)


def _check_batch(method: str, args: tuple, batch: int | None, log_prior: Any) -> None:
    if batch is None:
        return
    check(method != "lbfgs", "batch", 'None with method="lbfgs", whose draws and rows are fixed', batch)
    leaves = jax.tree.leaves(args)
    check(len(leaves) > 0, "args", "the data whose rows are drawn, where `batch` is given", "none")
    for leaf in leaves:
        check_length("args", leaf, "args[0]", leaves[0])
    check_count("batch", batch, 1, jnp.shape(leaves[0])[0])
    fix = "The prior counts once however few rows are drawn; `lambda x: 0.0` is a flat one."
    check(log_prior is not None, "log_prior", "given with `batch`", None, fix)


def _judged(
    target: FlatTarget, member: VariationalFamily, key: Key, num_eval: int, ended: tuple
) -> VariationalPosterior:
    points, centre = _points(member, key, num_eval + num_eval // 2)
    look = second_look(target, member, points, centre)
    bound = mean_estimate(look.own)
    trace, num_steps, refused, code = ended
    found = VariationalPosterior(
        member, target.rebuild, bound.value, look, num_steps, code,
        bound.standard_error, np.asarray(trace), refused,
    )  # fmt: skip
    return with_target(found, target)


@program
def _points(member: VariationalFamily, key: Key, n: int) -> tuple[Array, Array]:
    """Fresh draws, and the centre about which some of them are stretched."""
    noise = jr.normal(key, (n, member.noise_dim))
    return jax.vmap(member.forward)(noise), member.forward(jnp.zeros(member.noise_dim))


@program
def _log_prob(member: VariationalFamily, rebuild: Rebuild, leaves: list) -> Scalar:
    free = freed(rebuild, leaves)
    return member.log_prob(free) - rebuild(free)[1]
