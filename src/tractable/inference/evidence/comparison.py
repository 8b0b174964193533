r"""Models beside each other: posterior over models, Bayes factors, averages of predictions, Occam's razor.

Identities.  $p(M_j \mid D) \propto p(D \mid M_j)\,p(M_j)$; $B_{12} = p(D \mid M_1)/p(D \mid M_2)$;
             $p(y \mid D) = \sum_j p(y \mid D, M_j)\,p(M_j \mid D)$;
             $E_{D \sim M_1}[\log B_{12}] = \mathrm{KL}(p(D \mid M_1)\,\|\,p(D \mid M_2)) \ge 0$.
Occam.       A larger model spreads its evidence over more data sets: of nested polynomials, the smallest that
             explains the rows has the largest evidence.
Cost.        Linear in the number of models; one QR per degree for the polynomials.
References.  Kass and Raftery (1995); MacKay (2003) chapter 28; Hoeting et al. (1999).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_finite, check_length
from tractable.core.estimate import Estimate
from tractable.core.iterate import Status
from tractable.core.module import Module, field
from tractable.core.numerics import log_softmax, safe_log, weighted_logsumexp
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.base import Distribution
from tractable.distributions.divergence import kl, kl_probs
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.information import as_probabilities
from tractable.distributions.mixture import Mixture
from tractable.distributions.regression_conjugate import linear_regression_log_evidence
from tractable.inference.posterior import Posterior
from tractable.inference.trust.evidence import Evidence, check_comparable

__all__ = [
    "BayesFactor", "ModelPosterior", "average_log_prob", "average_predictive", "bayes_factor",
    "expected_log_bayes_factor", "model_posterior", "polynomial_evidences",
]  # fmt: skip

# Kass and Raftery's scale for 2 log B
_SCALE = ((2.0, "not worth more than a bare mention"), (6.0, "positive"), (10.0, "strong"))


class ModelPosterior(Module):
    """The probability of each model given the data, with what it came from."""

    probs: Float[Array, " m"]
    log_evidences: Float[Array, " m"]
    standard_errors: Float[Array, " m"]
    names: tuple[str, ...] = field(static=True)

    @property
    def best(self) -> str:
        """The most probable model."""
        return self.names[int(jnp.argmax(self.probs))]

    @property
    def verdict(self) -> Verdict:
        """Whether the errors of the evidences could change the order."""
        if len(self.names) < 2:
            return Verdict(False, "One model: there is nothing to compare.")
        order = np.argsort(-np.asarray(self.probs))[:2]
        gap = float(np.diff(np.asarray(self.log_evidences)[order[::-1]])[0])
        error = float(np.hypot(*np.asarray(self.standard_errors)[order]))
        decided = abs(gap) > 2 * error
        said = f"Undecided: the two best differ by {gap:.2g} with an error of {error:.2g}."
        said = f"{self.best} leads by {gap:.2g} nats of evidence." if decided else said
        return Verdict(decided, said, {"difference": gap, "error": error})

    def _columns(self) -> dict[str, Any]:
        order = np.argsort(-np.asarray(self.probs), kind="stable")
        parts = {"log evidence": self.log_evidences, "error": self.standard_errors, "probability": self.probs}
        values = {name: np.asarray(part)[order] for name, part in parts.items()}
        return {"model": [self.names[i] for i in order]} | values


class BayesFactor(Estimate):
    r"""$\log B_{12}$ with its standard error and the words of Kass and Raftery's scale."""

    @property
    def words(self) -> str:
        """The strength of the evidence, and for which of the two."""
        twice = 2 * float(self.value)
        if np.isnan(twice):
            return "unknown"
        strength = next((words for limit, words in _SCALE if abs(twice) <= limit), "very strong")
        return f"{strength}, for the {'first' if twice > 0 else 'second'}" if twice else "none either way"

    def __repr__(self) -> str:
        return f"log Bayes factor {super().__repr__()}: {self.words}"


def model_posterior(
    log_evidences: Mapping[str, Any] | Sequence[Any] | ArrayLike,
    prior: ArrayLike | None = None,
    *,
    unknown_grounds: bool = False,
) -> ModelPosterior:
    r"""$p(M_j \mid D) \propto p(D \mid M_j)\,p(M_j)$; a uniform `prior` unless one is given.

    Evidences are numbers, estimates with standard errors, or posteriors, by name or in order. Those that
    cannot be compared (improper or data-dependent priors, other rows, another measure) are refused by name,
    and so are those of bare log-densities, of which nothing is known, unless `unknown_grounds` says that you
    vouch for them. A plain number is taken at its word.

    >>> post = model_posterior({"line": -10.0, "parabola": -12.0})
    >>> post.best, round(float(post.probs[0]), 6)
    ('line', 0.880797)
    """
    named = log_evidences if isinstance(log_evidences, Mapping) else _numbered(log_evidences)
    check(len(named) > 0, "log_evidences", "at least one", "none")
    named = {name: _evidence_of(each) for name, each in named.items()}
    check_comparable(named, "log_evidences", unknown_grounds)
    pairs = [_value_and_error(each) for each in named.values()]
    values, errors = jnp.stack([v for v, _ in pairs]), jnp.stack([e for _, e in pairs])
    check(not bool(jnp.isnan(values).any()), "log_evidences", "numbers", np.asarray(values).tolist())
    check(bool((values > -jnp.inf).any()), "log_evidences", "above minus infinity for a model", "none")
    shares = jnp.full(len(pairs), 1 / len(pairs)) if prior is None else as_probabilities("prior", prior)
    check(shares.shape == values.shape, "prior", f"one per model ({len(pairs)})", f"shape {shares.shape}")
    return ModelPosterior(jnp.exp(log_softmax(values + safe_log(shares))), values, errors, tuple(named))


def bayes_factor(first: Any, second: Any, *, unknown_grounds: bool = False) -> BayesFactor:
    r"""$\log p(D \mid M_1) - \log p(D \mid M_2)$ of two numbers, estimates or posteriors.

    Positive: choose the first. What cannot be compared is refused, as by `model_posterior`.

    >>> bayes_factor(-10.0, -13.5).words
    'strong, for the first'
    """
    first, second = _evidence_of(first), _evidence_of(second)
    check_comparable({"the first": first, "the second": second}, "evidences", unknown_grounds)
    (a, a_error), (b, b_error) = _value_and_error(first), _value_and_error(second)
    return BayesFactor(a - b, jnp.hypot(a_error, b_error))


def expected_log_bayes_factor(first: Distribution | ArrayLike, second: Distribution | ArrayLike) -> Array:
    r"""$E_{D \sim M_1}[\log B_{12}] = \mathrm{KL}(p(D \mid M_1)\,\|\,p(D \mid M_2))$, never negative.

    Each argument is the distribution of the data under a model, or an array of the log-evidences of all
    possible data sets.
    """
    if isinstance(first, Distribution) and isinstance(second, Distribution):
        return kl(first, second)
    return kl_probs(jnp.exp(as_float("first", first)), jnp.exp(as_float("second", second)))


def average_predictive(predictives: Sequence[Distribution], probs: ArrayLike | ModelPosterior) -> Mixture:
    r"""$\sum_j p(y \mid D, M_j)\,p(M_j \mid D)$ as a mixture of predictive distributions of one class."""
    shares = probs.probs if isinstance(probs, ModelPosterior) else as_probabilities("probs", probs)
    check_length("predictives", np.empty(len(predictives)), "probs", shares)
    return Mixture.of(predictives, shares)


def average_log_prob(log_probs: ArrayLike, probs: ArrayLike | ModelPosterior) -> Array:
    r"""$\log\sum_j p(y \mid D, M_j)\,p(M_j \mid D)$ from log-densities of shape `(models, ...)`."""
    shares = probs.probs if isinstance(probs, ModelPosterior) else as_probabilities("probs", probs)
    logs = as_float("log_probs", log_probs)
    check_length("log_probs", logs, "probs", shares)
    spread = shares.reshape((-1,) + (1,) * (logs.ndim - 1))
    return weighted_logsumexp(logs, jnp.broadcast_to(spread, logs.shape), axis=0)


def polynomial_evidences(
    x: ArrayLike,
    y: ArrayLike,
    max_degree: int,
    *,
    prior_scale: float | int = 1.0,
    noise: float | int = 1.0,
) -> Float[Array, " degrees"]:
    r"""The exact log-evidence of $y = \sum_{k \le m}\beta_k x^k + \epsilon$ for each degree $m$ from 0.

    $\beta_k \sim N(0, \mathrm{prior\_scale}^2)$ and $\epsilon \sim N(0, \mathrm{noise}^2)$. The models are
    nested, and the evidence still falls once a degree explains nothing more: Occam's razor.
    """
    points, targets = as_float("x", x), as_float("y", y)
    check(points.ndim == 1, "x", "a vector", f"shape {points.shape}")
    check_length("y", targets, "x", points)
    check_finite("x", points)
    check_finite("y", targets)
    size = check_count("max_degree", max_degree, least=0) + 1
    check(prior_scale > 0 and noise > 0, "noise", "positive, as `prior_scale`", (noise, prior_scale))
    return _polynomial_evidences(points, targets, size, float(prior_scale), jnp.asarray(float(noise)))


@jax.jit
def _evidence_of_columns(design: Array, targets: Array, used: Array, cov: Array, noise: Array) -> Scalar:
    # a column of zeros leaves its coefficient to the prior and the evidence as it is: one shape for all
    prior = Gaussian(jnp.zeros(design.shape[1], design.dtype), cov)
    return linear_regression_log_evidence(prior, design * used[None], targets, noise=noise)


def _polynomial_evidences(x: Array, y: Array, size: int, scale: float, noise: Array) -> Array:
    design = x[:, None] ** jnp.arange(size)[None]
    cov = scale**2 * jnp.eye(size, dtype=design.dtype)
    used = jnp.tril(jnp.ones((size, size), design.dtype))
    return jax.vmap(lambda each: _evidence_of_columns(design, y, each, cov, noise))(used)


def _numbered(values: Any) -> dict[str, Any]:
    return {f"model {i}": value for i, value in enumerate(list(values))}


def _evidence_of(given: Any) -> Any:
    """The evidence of a posterior, with its grounds; anything else is one already."""
    if not isinstance(given, Posterior):
        return given
    found = given.log_evidence
    if hasattr(found, "grounds"):
        return found
    code = jnp.asarray(int(Status.completed))
    return Evidence(found.value, found.standard_error, code, method=found.method, grounds=given.grounds)


def _value_and_error(value: Any) -> tuple[Scalar, Scalar]:
    """The value and the standard error of an estimate; a plain number is exact."""
    if hasattr(value, "value") and hasattr(value, "standard_error"):
        return jnp.asarray(value.value), jnp.asarray(value.standard_error)
    number = as_float("log_evidence", value)
    check(number.ndim == 0, "log_evidence", "one number", f"shape {number.shape}")
    return number, jnp.zeros_like(number)
