r"""Laplace's approximation of a network: a mode, its curvature, and prior and noise by their evidence.

Gaussian.    $N(w_0, A^{-1})$, $A = \beta G + \mathrm{diag}(\alpha)$ at the mode $w_0$ (`bayes.curvature`).
Evidence.    $\log p(y \mid w_0, \beta) + \log p(w_0 \mid \alpha) + \frac k2\log 2\pi - \frac12\log|A|$, exact
             for networks linear in their weights.
Hyper.       In rounds, each from the mode of the one before, by the updates of `bayes.evidence`. $\nu$
             weights of the size that fan-ins suggest are added to each layer, a Gamma prior of $\alpha_g$:
             the evidence alone ($\nu = 0$) is nearly flat along small weights in one layer and large ones
             in the next, and a search along it ends nowhere.
Starts.      Rounds begin with two priors, one of them narrow; the mode of highest evidence is kept, also of
             several starts of the weights.
Rows.        Padded by rows of weight zero: other numbers of rows use the same programs.
Cost.        A search and a curvature per round; $O(p^3)$ for the full form, which up to a thousand weights is
             dense algebra on the host, and beyond is made once, after rounds with its diagonal.
References.  MacKay (1992), "A practical Bayesian framework for backpropagation networks"; Immer, Korzepa and
             Bauer (2021); Immer et al. (2021), "Scalable marginal likelihood estimation".
"""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check, check_count, check_option, to_device
from tractable.core.iterate import run
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Float, Key, Scalar
from tractable.inference.curvature.precision import Precision
from tractable.neural.bayes.curvature import FORMS, UnitCurvature, outputs_in_units, unit_curvature
from tractable.neural.bayes.evidence import (
    Pseudo,
    dense_gaussian,
    dense_reestimated,
    updated_noise,
    updated_prior,
)
from tractable.neural.bayes.likelihoods import NormalHead, NormalNoise
from tractable.neural.bayes.linearisation import HostRows, dense_mode, polished_mode
from tractable.neural.bayes.linearised import LaplaceNetwork, examined
from tractable.neural.bayes.mode import find_mode
from tractable.neural.bayes.priors import NormalWeights
from tractable.neural.bayes.statement import BayesianNetwork, redrawn

__all__ = ["NetworkLaplace"]

_DENSE = 1000  # weights up to which a full curvature costs little
_FACTORS = (1.0, 10.0)  # of the prior, from which it is tuned: the second from functions nearly straight
_FEW_STEPS = 10  # of the full form, in each round before the last
_SMALL = 500  # weights: below, threads of the linear algebra spend their time waiting for each other
_POLISH = 3  # steps with the curvature after the search


class NetworkLaplace(Module):
    """Laplace's approximation, its options.

    - `curvature`: "full", "kronecker", "diagonal" or "last_layer" (the other weights are taken as known).
    - `linearised`: predictions of the network made linear in its weights; otherwise of drawn networks, which
      needs more rows to be right.
    - `search`: False takes the weights as they come, of a network that was trained elsewhere; the verdict
      says whether they are at a mode.
    - `pseudo_weights`: the $\\nu$ of the updates; 0 is the evidence alone.
    - `pseudo_rows`: rows that are added, with residuals of `pseudo_noise`, where the noise is tuned.
    """

    curvature: str = field(static=True, default="full")
    linearised: bool = field(static=True, default=True)
    search: bool = field(static=True, default=True)
    num_starts: int = field(static=True, default=1)
    num_draws: int = field(static=True, default=200)
    max_rounds: int = field(static=True, default=40)
    tol: float = field(static=True, default=1e-2)
    pseudo_weights: float = field(static=True, default=10.0)
    pseudo_rows: float = field(static=True, default=0.0)
    pseudo_noise: float = field(static=True, default=0.0)

    def __check_init__(self) -> None:
        check_option("curvature", self.curvature, FORMS)
        for name in ("num_starts", "num_draws", "max_rounds"):
            check_count(name, getattr(self, name))
        for name in ("pseudo_weights", "pseudo_rows", "pseudo_noise"):
            check(getattr(self, name) >= 0, name, "zero or positive", getattr(self, name))

    def fit(self, stated: BayesianNetwork, weights: Float[Array, " p"], key: Key) -> LaplaceNetwork:
        """The approximation from `weights` and, with several starts, from others."""
        key_starts, key_draws = jr.split(key)
        return self.approximation(stated, weights, key_starts).drawn(key_draws, self.num_draws)

    def approximation(self, stated: BayesianNetwork, weights: Float[Array, " p"], key: Key) -> LaplaceNetwork:
        """The same without draws of the weights; `key` is for further starts."""
        _check_stated(stated)
        stated, more = stated.padded(), self.num_starts - 1
        starts = (weights, *(redrawn(stated.rebuild, weights, key, more) if more else ()))
        with one_blas_thread(stated.num_weights <= _SMALL):
            found = [self._at(stated, start) for start in starts]
        return found[_highest([each.evidence for each in found])]

    def tuned(self, stated: BayesianNetwork, weights: Float[Array, " p"]) -> tuple[BayesianNetwork, Array]:
        """The model with the prior and noise of the evidence, and the mode under them."""
        self._check_noise(stated)
        large = stated.num_weights > _DENSE
        if self.curvature == "last_layer" or (self.curvature == "full" and large):
            # of a last layer alone the evidence rises with features that are overfitted: all layers tune;
            # the full form of many weights costs minutes in each round, and is made once, at the end
            form = "diagonal" if large else "full"
            return dataclasses.replace(self, curvature=form).tuned(stated, weights)
        if not stated.prior.tuned:
            return self._ended(*self._rounds(stated, weights))
        found = [self._rounds(_with_factor(stated, factor), weights) for factor in _FACTORS]
        return self._ended(*found[_highest([self._gaussian(*each)[3] for each in found])])

    def _rounds(self, stated: BayesianNetwork, weights: Float[Array, " p"]) -> tuple[BayesianNetwork, Array]:
        """Mode, curvature, prior and noise in turn until they agree."""
        tunes = stated.prior.tuned or stated.likelihood.tuned
        steps = _DenseSteps(stated) if self._dense(stated) else _CompiledSteps(self.curvature)
        for round_ in range(self.max_rounds if tunes else 0):
            if self.search:  # before the last round a mode need not be known to rounding
                weights = steps.mode(stated, weights, False)
            stated, change = steps.reestimated(stated, weights, self._pseudo)
            if round_ and change <= self.tol:
                break
        if self.search and not self._dense(stated):
            weights = steps.mode(stated, weights, True)
        return stated, weights

    def _ended(self, stated: BayesianNetwork, weights: Array) -> tuple[BayesianNetwork, Array]:
        """With a mode to rounding, which on the host is sought for the better of two alone."""
        if self.search and self._dense(stated):
            weights = _DenseSteps(stated).mode(stated, weights, True)
        return stated, weights

    def _at(self, stated: BayesianNetwork, weights: Array) -> LaplaceNetwork:
        stated, weights = self.tuned(stated, weights)
        precision, weights, offset, evidence = self._gaussian(stated, weights)
        return examined(stated, weights, precision, self._first(stated), offset, evidence, self.linearised)

    def _gaussian(self, stated: BayesianNetwork, weights: Array) -> tuple[Precision, Array, Scalar, Scalar]:
        if self._dense(stated):
            return dense_gaussian(HostRows(stated), stated, weights)
        first = self._first(stated)
        curvature = unit_curvature(stated, weights, self.curvature, first)
        return _gaussian(curvature, stated, weights, first, self.search)

    def _check_noise(self, stated: BayesianNetwork) -> None:
        """Refuse to look for a noise that targets of one value do not have."""
        tuned = isinstance(stated.likelihood, NormalNoise) and stated.likelihood.tuned
        seen = np.asarray(stated.targets)[stated.present]
        fix = "Give the noise, such as `NormalNoise(np.log(0.1))`, or add `pseudo_rows`."
        varied = self.pseudo_rows > 0 or np.ptp(seen) > 0
        check(not tuned or bool(varied), "targets", "of two values at least to have a noise", seen[0], fix)

    @property
    def _pseudo(self) -> Pseudo:
        return Pseudo(self.pseudo_weights, self.pseudo_rows, self.pseudo_noise)

    def _dense(self, stated: BayesianNetwork) -> bool:
        return self.curvature == "full" and stated.num_weights <= _DENSE

    def _first(self, stated: BayesianNetwork) -> int:
        """Where the weights that are uncertain begin."""
        if self.curvature != "last_layer":
            return 0
        last = stated.rebuild.slots[-1].path.rpartition(".")[0]
        return sum(slot.size for slot in stated.rebuild.slots if slot.path.rpartition(".")[0] != last)


class _DenseSteps:
    """The steps of a round on the host, with the full curvature."""

    def __init__(self, stated: BayesianNetwork):
        self.rows = HostRows(stated)

    def mode(self, stated: BayesianNetwork, weights: Array, last: bool) -> Array:
        found = dense_mode(self.rows, stated, weights, max_steps=_FEW_STEPS)
        return polished_mode(self.rows, stated, found) if last else found

    def reestimated(
        self, stated: BayesianNetwork, weights: Array, pseudo: Pseudo
    ) -> tuple[BayesianNetwork, float]:
        return dense_reestimated(self.rows, stated, weights, pseudo)


class _CompiledSteps:
    """The steps of a round for every other form, as programs."""

    def __init__(self, form: str):
        self.form = form

    def mode(self, stated: BayesianNetwork, weights: Array, last: bool) -> Array:
        return find_mode(stated, weights, tol=1e-8 if last else 1e-4).state

    def reestimated(
        self, stated: BayesianNetwork, weights: Array, pseudo: Pseudo
    ) -> tuple[BayesianNetwork, float]:
        curvature = unit_curvature(stated, weights, self.form, 0)
        stated, change = _reestimated(curvature, stated, weights, pseudo)
        return stated, float(change)


@program
def _reestimated(
    curvature: UnitCurvature, stated: BayesianNetwork, weights: Array, pseudo: Pseudo
) -> tuple[BayesianNetwork, Scalar]:
    """The model with new factors and noise, and the largest change of their logarithms."""
    prior, density = stated.prior, stated.likelihood
    assert isinstance(prior, NormalWeights)
    spread = curvature.precision(density.precision, prior).variances()
    layer, count = prior.layer, prior.factor.size
    held = jax.ops.segment_sum(jnp.ones_like(spread), layer, count)
    gamma = held - prior.factor * jax.ops.segment_sum(spread, layer, count)
    u = outputs_in_units(stated, weights, 0)[1]
    change = jnp.zeros(())
    if prior.tuned:
        factor = updated_prior(gamma, jax.ops.segment_sum(u**2, layer, count), pseudo)
        change = jnp.abs(jnp.log(factor / prior.factor)).max()
        prior = dataclasses.replace(prior, factor=factor)
    if isinstance(density, NormalNoise) and density.tuned:
        each = jax.vmap(lambda x, y: density.unit_loss(stated.output(weights, x), y))
        loss = stated.counts @ each(stated.inputs, stated.targets)
        beta = updated_noise(stated.counts.sum(), gamma.sum(), loss, density.precision, pseudo)
        change = jnp.maximum(change, jnp.abs(jnp.log(beta / density.precision)))
        density = dataclasses.replace(density, log_scale=-0.5 * jnp.log(beta))
    return dataclasses.replace(stated, prior=prior, likelihood=density), change


@program
def _gaussian(
    curvature: UnitCurvature, stated: BayesianNetwork, weights: Array, first: int, search: bool
) -> tuple[Precision, Array, Scalar, Scalar]:
    """The precision, the mode with what is left of the way to it in posterior deviations, the evidence."""
    prior = stated.prior
    assert isinstance(prior, NormalWeights)
    scale = prior.base[first:] ** -0.5
    precision = curvature.precision(stated.likelihood.precision, prior)

    def density(u):
        moved = jnp.concatenate([weights[:first], u * scale])
        priors = prior.log_probs(moved)[first:].sum() + jnp.log(scale).sum()  # of u, not of w
        return stated.log_likelihood(moved) + priors

    look = jax.value_and_grad(density)

    def polish(at, _):
        u, height, slope = at
        other = u + precision.solve(slope)
        found = (other, *look(other))
        return jax.tree.map(lambda new, old: jnp.where(found[1] > height, new, old), found, at), None

    u = weights[first:] / scale
    u, height, slope = run(polish, (u, *look(u)), num_steps=_POLISH if search else 0).state
    offset = jnp.sqrt(slope @ precision.solve(slope))
    evidence = height + 0.5 * u.size * jnp.log(2 * jnp.pi) - 0.5 * precision.log_det()
    return precision, jnp.concatenate([weights[:first], u * scale]), offset, evidence


def _with_factor(stated: BayesianNetwork, factor: float) -> BayesianNetwork:
    prior = stated.prior
    assert isinstance(prior, NormalWeights)
    prior = dataclasses.replace(prior, factor=to_device(np.full(prior.factor.shape, factor)))
    return dataclasses.replace(stated, prior=prior)


def _highest(evidences: list) -> int:
    """The start of highest evidence; one that has none is last, and the verdict refuses it if it is alone."""
    values = np.array([float(each) for each in evidences])
    return int(np.argmax(np.where(np.isnan(values), -np.inf, values)))


def _check_stated(stated: BayesianNetwork) -> None:
    fix = "Its mode has no curvature: use 'layers', 'equal', a precision, or another method."
    normal = isinstance(stated.prior, NormalWeights)
    check(normal, "prior", "normal for Laplace's approximation", type(stated.prior).__name__, fix)
    fix = "Use an ensemble, Bayes by Backprop or chains."
    plain = not isinstance(stated.likelihood, NormalHead)
    check(plain, "likelihood", "of one output per number or of classes", "a normal head", fix)
