r"""A Kalman filter whose motion and noises are networks with memory, with exact Gaussian updates.

Model.       $x_{t+1} = f(x_t) + q_t$, $y_t = Hx_t + r_t$; $f$, $\log Q$ and $\log R$ (diagonals) are maps
             with a carried state (`carried`: LSTMs, or maps without memory). $H$ and the first belief are
             given.
Predict.     $\bar\mu_{t+1} = f(\hat\mu_t)$, $\bar\Sigma_{t+1} = F \hat\Sigma_t F^\top + Q$, with $F$ the
             Jacobian of $f$ at $\hat\mu_t$ for what is carried then, and $Q =
             \mathrm{diag}\,e^{q(\bar\mu_{t+1})}$.
Update.      That of a Gaussian chain (`messages.gaussian_steps`), $K = \bar\Sigma H^\top (H \bar\Sigma H^\top
             + R)^{-1}$; entries of $y_t$ that are NaN are missing. With linear maps and constant noises it is
             the Kalman filter.
Noise.       $R = \mathrm{diag}\,e^{r(\cdot)}$ sees the predicted reading, or ("reading") $y_t$ itself. In the
             second case $N(y_t; H\bar\mu_t, S(y_t))$ is no density of $y_t$: it does not integrate to one,
             and is refused as a likelihood; the loss of the states may use it.
Losses.      $\frac1T \sum_t \lVert x_t - \hat\mu_t \rVert^2 + \lambda \lVert x_t - \bar\mu_t \rVert^2$, whose
             second term teaches $f$ (`tracking_loss`), and $-\log p(y)$, where no states are known.
Cost.        One Jacobian of $f$ and $O(d^3)$ a time.
References.  Coskun et al. (2017), LSTM Kalman filters; Sarkka (2013) chapter 5.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_entries, check_finite, check_option, check_shape
from tractable.core.iterate import run
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.messages.gaussian_chain import GaussianChain, GaussianSmoothed
from tractable.messages.gaussian_steps import FORMS, Belief, Step, push
from tractable.statespace.nonlinear.rules import Taylor

__all__ = ["LearnedFiltered", "NeuralKalman", "reading_loss", "tracking_loss"]

_FORM = FORMS["covariance"]


class LearnedFiltered(Module):
    """Beliefs of each time, the log-densities of the readings, and the affine chain behind them."""

    predicted: Gaussian  # of each time from the readings before it
    filtered: Gaussian  # with its own reading
    log_densities: Float[Array, " t"]
    chain: GaussianChain = field(show=False)
    readings: Array = field(show=False)
    _shown = ("log_likelihood",)

    @property
    def log_likelihood(self) -> Scalar:
        r"""$\log p(y)$ under the affine chain."""
        return self.log_densities.sum()

    def smooth(self) -> GaussianSmoothed:
        """Beliefs of each time from all readings, by the steps that the filter made."""
        return self.chain.smooth(self.readings)


class NeuralKalman(eqx.Module):
    """The model; `transition`, `transition_noise` and `observation_noise` are carried maps whose outputs are
    the next state, and the logarithms of the variances of its steps and of its readings.

    >>> from tractable.neural.carried import Constant, Memoryless
    >>> walk = Memoryless(lambda x: x)
    >>> model = NeuralKalman(walk, Constant([0.0]), Constant([0.0]), [[1.0]], [0.0], [[1.0]])
    >>> model.filter([[1.0], [jnp.nan], [2.0]]).filtered.mean[:, 0].round(6).tolist()
    [0.5, 0.5, 1.571429]
    """

    transition: Any
    transition_noise: Any
    observation_noise: Any
    observation: Float[Array, "m d"]
    initial_mean: Float[Array, " d"]
    initial_cov: Float[Array, "d d"]
    noise_sees: str = eqx.field(static=True)

    def __init__(
        self,
        transition: Any,
        transition_noise: Any,
        observation_noise: Any,
        observation: ArrayLike,
        initial_mean: ArrayLike,
        initial_cov: ArrayLike,
        *,
        noise_sees: str = "prediction",
    ):
        check_option("noise_sees", noise_sees, ("prediction", "reading"))
        self.transition, self.transition_noise = transition, transition_noise
        self.observation_noise, self.noise_sees = observation_noise, noise_sees
        first = Gaussian(as_float("initial_mean", initial_mean), as_float("initial_cov", initial_cov))
        self.initial_mean, self.initial_cov = first.mean, first.cov
        self.observation = as_float("observation", observation)
        check_finite("observation", self.observation)
        check_shape("observation", self.observation, (None, first.mean.shape[0]))
        d, m = self.observation.shape[::-1]
        _check_map("transition", transition, d, d)
        _check_map("transition_noise", transition_noise, d, d)
        _check_map("observation_noise", observation_noise, m, m)

    def filter(self, readings: ArrayLike) -> LearnedFiltered:
        """Beliefs of each time, `(times, entries)` of readings; NaN is missing."""
        rows = as_float("readings", readings)
        size = self.observation.shape[0]
        fits = rows.ndim == 2 and rows.shape[1] == size and rows.shape[0] > 0
        fix = "One series at a time: `jax.vmap` takes several."
        check(fits, "readings", f"of shape (times, {size}), at least one time", f"shape {rows.shape}", fix)
        check_entries("readings", rows, lambda v: abs(v) != jnp.inf, "finite, or NaN for what is missing")
        return _filtered(self, rows)

    def log_likelihood(self, readings: ArrayLike) -> Scalar:
        r"""$\log p(y)$ under the affine chain: that of the model where its motion is linear."""
        fix = "Let it see the prediction, or train by `tracking_loss`."
        must = "'prediction' for a likelihood: variances that see what they judge give no density"
        check(self.noise_sees == "prediction", "noise_sees", must, repr(self.noise_sees), fix)
        return self.filter(readings).log_likelihood


def tracking_loss(model: NeuralKalman, row: tuple[Any, Any], prediction_weight: Any = 1.0) -> Scalar:
    r"""$\frac1T\sum_t \lVert x_t - \hat\mu_t\rVert^2 + \lambda\lVert x_t - \bar\mu_t\rVert^2$, $\lambda$ =
    `prediction_weight`, of a row of readings and true states of one series; for `optim.minimise_batches`."""
    readings, states = row
    found = model.filter(readings)
    must = (found.filtered.mean.shape[0], model.initial_mean.shape[0])
    check_shape("states", states, must)
    gaps = (states - found.filtered.mean) ** 2, (states - found.predicted.mean) ** 2
    return (gaps[0].sum() + prediction_weight * gaps[1].sum()) / must[0]


def reading_loss(model: NeuralKalman, readings: Any) -> Scalar:
    r"""$-\frac1T \log p(y)$ of one series; for `optim.minimise_batches`."""
    return -model.log_likelihood(readings) / len(readings)


@program
def _filtered(model: NeuralKalman, readings: Array) -> LearnedFiltered:
    # what is given is not learnt, whatever a trainer does to the leaves of the model
    given = model.observation, model.initial_mean, model.initial_cov
    H, mean, cov = (jax.lax.stop_gradient(part.astype(readings.dtype)) for part in given)
    flat = jnp.zeros(H.shape[0], readings.dtype)

    def step(carry: tuple, y: Array) -> tuple[tuple, tuple]:
        belief, moving, stirring, seeing = carry
        guess = H @ belief.mean
        seen = guess if model.noise_sees == "prediction" else jnp.where(jnp.isnan(y), guess, y)
        seeing, log_noise = model.observation_noise(seeing, seen)
        look = Step(H, flat, jnp.diag(jnp.exp(log_noise)))
        after, density = _FORM.observe(look, belief, y)
        tangent = Taylor()(lambda x: model.transition(moving, x)[1], after.mean, after.spread)
        moving, predicted = model.transition(moving, after.mean)
        stirring, log_noise = model.transition_noise(stirring, predicted)
        move = Step(tangent.weights, tangent.bias, jnp.diag(jnp.exp(log_noise)))
        ahead = push(_FORM, move, after)
        return (ahead, moving, stirring, seeing), (belief, after, density, look, move)

    maps = model.transition, model.transition_noise, model.observation_noise
    first = Belief(mean, cov), *(each.start() for each in maps)
    beliefs, after, densities, looks, moves = run(step, first, readings).trace
    moves = jax.tree.map(lambda leaf: leaf[:-1], moves)  # there is none after the last reading
    steps = (LinearGaussian(each.weights, each.bias, each.spread) for each in (moves, looks))
    chain = GaussianChain(Gaussian(mean, cov), *steps)
    shown = Gaussian(beliefs.mean, beliefs.spread), Gaussian(after.mean, after.spread)
    return LearnedFiltered(*shown, densities, chain, readings)


def _check_map(name: str, carried: Any, inputs: int, outputs: int) -> None:
    """Whether a map has the protocol, and its output the size, without computing it."""
    has = callable(carried) and hasattr(carried, "start")
    fix = "Wrap a function in `Memoryless`, or numbers in `Constant`."
    must = "a map `(carry, x) -> (carry, y)` with `start()`"
    check(has, name, must, type(carried).__name__, fix, TypeError)
    _, y = eqx.filter_eval_shape(lambda x: carried(carried.start(), x), jnp.zeros(inputs))
    check(y.shape == (outputs,), name, f"a map to vectors of {outputs}", f"shape {y.shape}")
