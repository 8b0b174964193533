r"""One step of a Gaussian chain, by covariances or by their square roots: predict, observe, turn round.

Step.        $y = Hx + c + \epsilon$, $\epsilon \sim N(0, N)$; the belief is $x \sim N(m, P)$.
Roots.       With $P = UU^\top$ and $N = VV^\top$ one QR decomposition gives
             $\begin{pmatrix} HU & V \\ U & 0 \end{pmatrix} \to
             \begin{pmatrix} S^{1/2} & 0 \\ C S^{-\top/2} & P_{x \mid y}^{1/2} \end{pmatrix}$: marginal, gain
             and rest with no difference of matrices, so that half of the digits are never lost.
Turned.      $x \mid y \sim N(Gy + m - G\hat y,\ L)$ with $G = CS^{+}$ and Joseph's $L = (I - GH)P(I -
             GH)^\top + GNG^\top$: right also where $S$ is singular (a known start, a drift without noise).
Scan.        Steps of a filter compose: $(A, b, C, \eta, J)$ for $p(x_j \mid x_i, y)$ and $p(y \mid x_i)$.
Cost.        $O(d^3)$ per step.
References.  Kaminski, Bryson and Schmidt (1971); Sarkka and Garcia-Fernandez (2021); Yaghoobi et al. (2022).
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl

from tractable.core.factors import is_regular, normal_log_density, positive_definite_factor, psd_root
from tractable.core.linalg import sqrt_sum, symmetrise, tria
from tractable.core.module import Module
from tractable.core.types import Array, Float, Scalar
from tractable.distributions.gaussian import Factored, Gaussian, learn, observed_part
from tractable.distributions.linear_gaussian import LinearGaussian

__all__ = ["FORMS", "Belief", "Element", "Form", "Step"]


class Belief(Module):
    """Mean and spread (covariance or root) of a state."""

    mean: Float[Array, "*t d"]
    spread: Float[Array, "*t d d"]


class Step(Module):
    """A linear map with noise, by its spread: a transition, a reading, or a transition turned round."""

    weights: Float[Array, "*t y x"]
    bias: Float[Array, "*t y"]
    spread: Float[Array, "*t y y"]


class Element(Module):
    r"""Readings between two times: $x_j \mid x_i \sim N(A x_i + b, C)$, and $\eta$, $J$ about $x_i$."""

    A: Float[Array, "*t d d"]
    b: Float[Array, "*t d"]
    C: Float[Array, "*t d d"]  # by its spread
    eta: Float[Array, "*t d"]
    J: Float[Array, "*t d d"]  # by its spread


class Covariances:
    """Spreads are covariances: fast, and differentiable where they are singular."""

    def spread_of(self, cov: Array) -> Array:
        return cov

    def cov_of(self, spread: Array) -> Array:
        return spread

    def root_of(self, spread: Array) -> Array:
        return psd_root(spread)

    def spreads_of(self, covs: Array) -> Array:
        return covs

    def roots_of(self, spreads: Array) -> Array:
        return jax.lax.map(psd_root, spreads)  # one by one: a root that need not be taken is not

    def through(self, weights: Array, spread: Array, noise: Array) -> Array:
        """The spread of $Hx + \\epsilon$."""
        return symmetrise(weights @ spread @ weights.T + noise)

    def observe(self, step: Step, belief: Belief, y: Array) -> tuple[Belief, Scalar]:
        """The belief after a reading, of which entries may be NaN, and the log-density of the others."""
        x = Gaussian(belief.mean, belief.spread)
        predicted, cross = LinearGaussian(step.weights, step.bias, step.spread).marginal(x)
        cross, part, value = observed_part(cross, predicted, y)
        known = learn(part, value)
        after = known.condition(x, cross)
        density = Factored(part.mean, known.factor).log_prob(value)
        return Belief(after.mean, after.cov), density - _unseen(y)

    def turn(self, step: Step, belief: Belief) -> tuple[Belief, Step]:
        """The belief one step on, and the step back from it."""
        predicted = push(self, step, belief)
        gain = _gain(predicted.spread, belief.spread @ step.weights.T)
        kept = jnp.eye(belief.mean.size, dtype=gain.dtype) - gain @ step.weights
        rest = symmetrise(kept @ belief.spread @ kept.T + gain @ step.spread @ gain.T)
        return predicted, Step(gain, belief.mean - gain @ predicted.mean, rest)

    def element(self, move: Step, look: Step, y: Array) -> Element:
        """A transition and the reading after it."""
        prior = Belief(move.bias, move.spread)
        x = Gaussian(prior.mean, prior.spread)
        predicted, cross = LinearGaussian(look.weights, look.bias, look.spread).marginal(x)
        cross, part, value = observed_part(cross, predicted, y)
        known = learn(part, value)
        after = known.condition(x, cross)
        seen = jnp.where(jnp.isnan(y)[:, None], 0.0, look.weights)
        half = known.factor.half_solve(seen @ move.weights)
        kept = move.weights - known.factor.solve(cross.T).T @ seen @ move.weights
        eta = move.weights.T @ seen.T @ known.weights
        return Element(kept, after.mean, after.cov, eta, half.T @ half)

    def join(self, first: Element, then: Element) -> Element:
        """Two stretches of time, one after the other."""
        both = jnp.eye(first.b.size, dtype=first.b.dtype) + first.C @ then.J
        inverse = jnp.linalg.inv(both)
        onward, back = then.A @ inverse, (inverse @ first.A).T
        return Element(
            onward @ first.A,
            onward @ (first.b + first.C @ then.eta) + then.b,
            symmetrise(onward @ first.C @ then.A.T + then.C),
            back @ (then.eta - then.J @ first.b) + first.eta,
            symmetrise(back @ then.J @ first.A + first.J),
        )


class Joseph(Covariances):
    r"""Covariances after a reading as $(I - KC)P(I - KC)^\top + KRK^\top$: positive for any gain."""

    def observe(self, step: Step, belief: Belief, y: Array) -> tuple[Belief, Scalar]:
        weights, noise, gap = _masked(step, belief, y)
        cross = belief.spread @ weights.T
        factor = positive_definite_factor(symmetrise(weights @ cross + noise))
        gain = factor.solve(cross.T).T
        kept = jnp.eye(belief.mean.size, dtype=gain.dtype) - gain @ weights
        after = symmetrise(kept @ belief.spread @ kept.T + gain @ noise @ gain.T)
        density = normal_log_density(gap @ factor.solve(gap), factor.log_det(), y.size)
        return Belief(belief.mean + gain @ gap, after), density - _unseen(y)


class Information(Covariances):
    r"""Precisions add at a reading: $\Lambda = P^{-1} + C^\top R^{-1} C$. Cheap for many sensors of few
    states; $P$ and $R$ must be regular."""

    def observe(self, step: Step, belief: Belief, y: Array) -> tuple[Belief, Scalar]:
        weights, noise, gap = _masked(step, belief, y)
        error, before = positive_definite_factor(noise), positive_definite_factor(belief.spread)
        half, white = error.half_solve(weights), error.half_solve(gap)
        eye = jnp.eye(belief.mean.size, dtype=gap.dtype)
        after = positive_definite_factor(symmetrise(before.solve(eye) + half.T @ half))
        shift = half.T @ white
        log_det = error.log_det() + before.log_det() + after.log_det()
        squares = white @ white - shift @ after.solve(shift)
        density = normal_log_density(squares, log_det, y.size)
        mean = belief.mean + after.solve(shift)
        return Belief(mean, symmetrise(after.solve(eye))), density - _unseen(y)


class Roots:
    """Spreads are roots: no digits are lost to differences. Not differentiable where they are singular."""

    def spread_of(self, cov: Array) -> Array:
        return psd_root(cov)

    def cov_of(self, spread: Array) -> Array:
        return symmetrise(spread @ spread.T)

    def root_of(self, spread: Array) -> Array:
        return spread

    def spreads_of(self, covs: Array) -> Array:
        return jax.lax.map(psd_root, covs)

    def roots_of(self, spreads: Array) -> Array:
        return spreads

    def through(self, weights: Array, spread: Array, noise: Array) -> Array:
        return sqrt_sum(weights @ spread, noise)

    def observe(self, step: Step, belief: Belief, y: Array) -> tuple[Belief, Scalar]:
        marginal, cross, rest, gap = self._read(step, belief, y)
        z = jsl.solve_triangular(marginal, gap, lower=True)
        log_det = 2 * jnp.log(jnp.diag(marginal)).sum()
        return Belief(belief.mean + cross @ z, rest), normal_log_density(z @ z, log_det, y.size) - _unseen(y)

    def turn(self, step: Step, belief: Belief) -> tuple[Belief, Step]:
        marginal, cross, rest = _triangle(step.weights, belief.spread, step.spread)
        regular = is_regular(marginal)

        def triangular() -> tuple[Array, Array]:
            safe = jnp.where(regular, marginal, jnp.eye(len(marginal), dtype=marginal.dtype))
            return jsl.solve_triangular(safe.T, cross.T, lower=False).T, rest

        def singular() -> tuple[Array, Array]:
            gain = _gain(marginal @ marginal.T, cross @ marginal.T)
            return gain, sqrt_sum(rest, cross - gain @ marginal)

        gain, left = jax.lax.cond(regular, triangular, singular)
        predicted = Belief(step.weights @ belief.mean + step.bias, marginal)
        return predicted, Step(gain, belief.mean - gain @ predicted.mean, left)

    def element(self, move: Step, look: Step, y: Array) -> Element:
        prior = Belief(move.bias, move.spread)
        marginal, cross, rest, gap = self._read(look, prior, y)
        seen = jnp.where(jnp.isnan(y)[:, None], 0.0, look.weights) @ move.weights
        half = jsl.solve_triangular(marginal, jnp.concatenate([seen, gap[:, None]], 1), lower=True)
        information = half[:, :-1].T
        return Element(
            move.weights - cross @ half[:, :-1],
            move.bias + cross @ half[:, -1],
            rest,
            information @ half[:, -1],
            tria(information),
        )

    def join(self, first: Element, then: Element) -> Element:
        size = first.b.size
        eye, zero = jnp.eye(size, dtype=first.b.dtype), jnp.zeros((size, size), first.b.dtype)
        whole = tria(jnp.block([[first.C.T @ then.J, eye], [then.J, zero]]))
        corner, side, rest = whole[:size, :size], whole[size:, :size], whole[size:, size:]
        # U (I + U'JU)^-1 U'J = U corner^-T side'
        lost = first.C @ jsl.solve_triangular(corner.T, side.T, lower=False)
        kept = eye - lost
        return Element(
            then.A @ kept @ first.A,
            then.A @ kept @ (first.b + first.C @ (first.C.T @ then.eta)) + then.b,
            sqrt_sum(then.A @ jsl.solve_triangular(corner, first.C.T, lower=True).T, then.C),
            first.A.T @ kept.T @ (then.eta - then.J @ (then.J.T @ first.b)) + first.eta,
            sqrt_sum(first.A.T @ rest, first.J),
        )

    def _read(self, step: Step, belief: Belief, y: Array) -> tuple[Array, Array, Array, Array]:
        """The triangle of a reading, with unit noise for what is missing, and the gap to its prediction."""
        seen = ~jnp.isnan(y)
        weights = jnp.where(seen[:, None], step.weights, 0.0)
        noise = jnp.where(seen[:, None], step.spread, 0.0)
        noise = jnp.concatenate([noise, jnp.diag(jnp.where(seen, 0.0, 1.0))], axis=1)
        marginal, cross, rest = _triangle(weights, belief.spread, noise)
        regular = is_regular(marginal)
        gap = jnp.where(seen, y - step.weights @ belief.mean - step.bias, 0.0)
        return jnp.where(regular, marginal, jnp.nan), cross, rest, gap


Form = Covariances | Roots
FORMS: dict[str, Any] = {
    "covariance": Covariances(),
    "joseph": Joseph(),
    "square-root": Roots(),
    "information": Information(),
}


def push(form: Form, step: Step, belief: Belief) -> Belief:
    """The belief one step on."""
    mean = step.weights @ belief.mean + step.bias
    return Belief(mean, form.through(step.weights, belief.spread, step.spread))


def compose(form: Form, later: Step, earlier: Step) -> Step:
    """Two steps as one: `earlier` of what `later` gives (the first of the two in a pass backward)."""
    return Step(
        earlier.weights @ later.weights,
        earlier.weights @ later.bias + earlier.bias,
        form.through(earlier.weights, later.spread, earlier.spread),
    )


def _triangle(weights: Array, spread: Array, noise: Array) -> tuple[Array, Array, Array]:
    """The blocks of the triangular root of $(y, x)$ together."""
    size, width = weights.shape
    below = jnp.zeros((width, noise.shape[1]), noise.dtype)
    whole = tria(jnp.block([[weights @ spread, noise], [spread, below]]))
    return whole[:size, :size], whole[size:, :size], whole[size:, size:]


def _gain(cov: Array, cross: Array) -> Array:
    """$C S^{-1}$; where $S$ is singular, by its pseudo-inverse, in units in which the variances are one."""
    regular = jnp.isfinite(positive_definite_factor(jax.lax.stop_gradient(cov)).lower).all()
    size = len(cov)

    def inverse() -> Array:
        safe = jnp.where(regular, cov, jnp.eye(size, dtype=cov.dtype))
        return positive_definite_factor(safe).solve(cross.T).T

    def pseudo() -> Array:
        ladder = jnp.diag(jnp.arange(1, size + 1, dtype=cov.dtype))  # distinct values: a finite gradient
        safe = jnp.where(regular, ladder, cov)
        variance = jnp.diag(safe)
        scale = 1 / jnp.sqrt(jnp.where(variance > 0, variance, 1.0))
        values, vectors = jnp.linalg.eigh(scale[:, None] * safe * scale[None])
        kept = values > 10 * size * jnp.finfo(cov.dtype).eps
        turned = (cross * scale[None]) @ vectors
        return (
            turned
            @ (jnp.where(kept, 1 / jnp.where(kept, values, 1.0), 0.0)[:, None] * vectors.T)
            * scale[None]
        )

    return jax.lax.cond(regular, inverse, pseudo)


def _masked(step: Step, belief: Belief, y: Array) -> tuple[Array, Array, Array]:
    """Weights, noise and gap of a reading, with unit noise for what is missing."""
    seen = ~jnp.isnan(y)
    weights = jnp.where(seen[:, None], step.weights, 0.0)
    noise = jnp.where(seen[:, None] & seen[None], step.spread, jnp.eye(y.size, dtype=y.dtype))
    return weights, noise, jnp.where(seen, y - step.weights @ belief.mean - step.bias, 0.0)


def _unseen(y: Array) -> Scalar:
    """The log-density of the unit noise that stands for what is missing."""
    return normal_log_density(0.0, 0.0, jnp.isnan(y).sum())
