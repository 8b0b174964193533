r"""What the outputs of a network say about a target: a density of one target given the output of one row.

Numbers.     `NormalNoise`: $y \sim N(f(x), \sigma^2)$; $\sigma$ unknown unless given. `NormalHead`: two
             outputs, the mean and $\log\sigma^2(x)$.
Classes.     `LogitClasses`: one output, the log-odds of class 1; or one logit per class.
Information. Each has the Fisher information of its output at unit noise: $1$, $p(1 - p)$,
             $\mathrm{diag}(p) - pp^\top$; it is the Hessian of the loss, whatever the target.
Cost.        A few operations per row.
"""

from abc import abstractmethod

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_entries, check_option
from tractable.core.module import Module, field
from tractable.core.support import real
from tractable.core.types import Array, Float, Scalar

__all__ = ["LogitClasses", "NormalHead", "NormalNoise", "OutputDensity", "as_density"]

_LOG_2PI = float(np.log(2 * np.pi))


class OutputDensity(Module):
    """The density of a target given the outputs `(m,)` of a network."""

    tuned: bool = field(static=True, default=False, kw_only=True)  # whether the evidence decides on the noise

    @property
    def num_outputs(self) -> int:
        """The number of outputs that a network must have for it."""
        return 1

    @abstractmethod
    def unit_loss(self, output: Float[Array, " m"], target: Scalar) -> Scalar:
        """Minus the log-density of a target, with noise of size one and without its constant."""

    @abstractmethod
    def log_prob(self, output: Float[Array, " m"], target: Scalar) -> Scalar:
        """The log-density of a target."""

    @property
    def precision(self) -> Scalar:
        """What the unit loss counts: the precision of the noise, or one."""
        return jnp.ones(())

    @property
    def is_numeric(self) -> bool:
        """Whether targets are numbers rather than classes."""
        return True

    def check_targets(self, targets: Array) -> None:
        """Refuse targets that are none of this density."""

    def check_fitted(self, targets: Array) -> None:
        """Refuse targets from which nothing can be learned."""


class NormalNoise(OutputDensity):
    r"""$y \sim N(f, \sigma^2)$ with $\sigma$ = `exp(log_scale)`.

    >>> NormalNoise(jnp.log(2.0)).precision.item()
    0.25
    """

    log_scale: Float[Array, ""] = field(support=real, default=0.0)

    @property
    def precision(self) -> Scalar:
        return jnp.exp(-2 * self.log_scale)

    def unit_loss(self, output, target):
        return 0.5 * (output[0] - target) ** 2

    def log_prob(self, output, target):
        return -self.precision * self.unit_loss(output, target) - self.log_scale - 0.5 * _LOG_2PI


class NormalHead(OutputDensity):
    r"""$y \sim N(f_1, e^{f_2})$: the network says how noisy a row is."""

    @property
    def num_outputs(self) -> int:
        return 2

    def unit_loss(self, output, target):
        return 0.5 * ((output[0] - target) ** 2 * jnp.exp(-output[1]) + output[1])

    def log_prob(self, output, target):
        return -self.unit_loss(output, target) - 0.5 * _LOG_2PI


class LogitClasses(OutputDensity):
    """A class from logits: of one output the log-odds of class 1, of several one logit for each class."""

    num_classes: int = field(static=True, default=2, kw_only=True)
    outputs: int = field(static=True, default=1, kw_only=True)

    @property
    def num_outputs(self) -> int:
        return self.outputs

    @property
    def is_numeric(self) -> bool:
        return False

    def log_probs(self, output: Float[Array, " m"]) -> Float[Array, " k"]:
        """The log-probability of each class."""
        logits = jnp.concatenate([jnp.zeros_like(output), output]) if self.outputs == 1 else output
        return jax.nn.log_softmax(logits)

    def unit_loss(self, output, target):
        return -self.log_prob(output, target)

    def log_prob(self, output, target):
        return self.log_probs(output)[target.astype(int)]

    def check_targets(self, targets: Array) -> None:
        last = self.num_classes - 1
        must = f"a whole number from 0 to {last}, one class per logit"
        check_entries(
            "targets", np.asarray(targets), lambda v: (v == np.round(v)) & (v >= 0) & (v <= last), must
        )

    def check_fitted(self, targets: Array) -> None:
        fix = "There is nothing to tell apart: give rows of another class too."
        seen = np.unique(np.asarray(targets))
        check(seen.size > 1, "targets", "of two classes at least", f"class {seen[0]:g} alone", fix)


def as_density(likelihood: "str | OutputDensity", num_outputs: int) -> OutputDensity:
    """The density that a word stands for, for a network with so many outputs."""
    if isinstance(likelihood, str):
        check_option("likelihood", likelihood, ("normal", "normal_head", "classes"))
        several = max(num_outputs, 2)
        likelihood = {
            "normal": lambda: NormalNoise(tuned=True),
            "normal_head": NormalHead,
            "classes": lambda: LogitClasses(num_classes=several, outputs=num_outputs),
        }[likelihood]()
    known = isinstance(likelihood, OutputDensity)
    check(known, "likelihood", "a word or a density of outputs", type(likelihood).__name__, error=TypeError)
    assert isinstance(likelihood, OutputDensity)
    wanted = likelihood.num_outputs
    fix = "Give the network that many outputs, or another likelihood."
    check(
        num_outputs == wanted,
        "network",
        f"of {wanted} outputs for {type(likelihood).__name__}",
        num_outputs,
        fix,
    )
    return likelihood
