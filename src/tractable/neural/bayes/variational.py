r"""Variational posteriors of the weights: mean field, low rank and full rank, by `inference.variational`.

Bound.       $E_q[\log p(y \mid w)] - \mathrm{KL}(q \,\|\, p(w))$ of all weights together: how they are
             divided among modules does not matter.
Verdict.     The tail $\hat k$ of the importance weights of fresh draws says whether $q$ is close to the
             posterior of the weights. That of a network seldom is (permuted units are other modes), though
             its predictions may be good: then rows that are held out judge.
Cost.        A few gradients over all rows per step.
References.  Graves (2011); Ong, Nott and Smith (2018); Yao et al. (2018), "Yes, but did it work?".
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check_count, check_option
from tractable.core.estimate import Estimate
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Float, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.inference.variational.families import VariationalFamily
from tractable.inference.variational.vi import vi
from tractable.inference.weighted.pareto import k_verdict, tail_shape
from tractable.neural.bayes.result import NetworkPosterior
from tractable.neural.bayes.statement import BayesianNetwork
from tractable.neural.bayes.tuning import tuned_model

__all__ = ["NetworkVariational", "VariationalNetwork", "judged_family"]

_JUDGED = 1000  # draws whose weights judge


class VariationalNetwork(NetworkPosterior):
    r"""A family over the weights, and the log-weights $\log p(y, w) - \log q(w)$ of its draws."""

    family: VariationalFamily
    log_weights: Float[Array, " n"] = field(show=False)

    @property
    def bound(self) -> Estimate:
        """The evidence lower bound with its standard error."""
        logs = self.log_weights
        return Estimate(logs.mean(), logs.std(ddof=1) / jnp.sqrt(logs.size))

    @property
    def log_evidence(self) -> Estimate:
        """The bound, which is below it."""
        return self.bound

    @property
    def k_hat(self) -> float:
        """The tail shape of the importance weights."""
        return tail_shape(np.asarray(self.log_weights))

    def _own_verdict(self) -> Verdict:
        found = k_verdict(self.k_hat, self.log_weights.size)
        numbers = found.numbers | {"bound": float(self.bound.value)}
        if found.ok:
            return Verdict(True, found.sentence, numbers)
        said = f"Not certified as a posterior of the weights: {found.sentence}"
        return Verdict(False, f"{said} Its predictions may be good all the same: `judge(x, y)`.", numbers)


class NetworkVariational(Module):
    """A family of `inference.variational` over the weights, fitted from a mode, its options.

    `family` is "mean_field", "low_rank" or "full_rank"; `method`, `tol` and `max_steps` are those of `vi`.
    """

    family: str = field(static=True, default="mean_field")
    method: str = field(static=True, default="adam")
    tol: float = field(static=True, default=0.1)
    max_steps: int = field(static=True, default=20_000)
    num_draws: int = field(static=True, default=200)

    def __check_init__(self) -> None:
        check_option("family", self.family, ("mean_field", "low_rank", "full_rank"))
        check_count("num_draws", self.num_draws)

    def fit(self, stated: BayesianNetwork, weights: Float[Array, " p"], key: Key) -> VariationalNetwork:
        """The member of the family with the highest bound."""
        stated, weights = tuned_model(stated, weights)
        key_fit, key_draws = jr.split(key)
        options: Any = {"method": self.method, "tol": self.tol, "max_steps": self.max_steps}
        found = vi(
            log_joint, weights, key=key_fit, family=self.family, args=(stated,), num_eval=25, progress=False,
            **options,
        )  # fmt: skip
        return judged_family(stated, found.family, key_draws, self.num_draws)


def log_joint(weights: Float[Array, " p"], stated: BayesianNetwork) -> Scalar:
    """The density of the weights, with the model as data."""
    return stated.log_joint(weights)


def judged_family(
    stated: BayesianNetwork, family: VariationalFamily, key: Key, num_draws: int
) -> VariationalNetwork:
    """The posterior with draws, and with the weights of others that judge it."""
    draws, logs = _weighed(stated, family, jr.normal(key, (max(num_draws, _JUDGED), family.noise_dim)))
    return VariationalNetwork(stated, draws[:num_draws], family, logs)


@program
def _weighed(
    stated: BayesianNetwork, family: VariationalFamily, noise: Float[Array, "n k"]
) -> tuple[Float[Array, "n p"], Float[Array, " n"]]:
    def one(z):
        w, log_q = family.forward_and_log_prob(z)
        return w, stated.log_joint(w) - log_q

    return jax.lax.map(one, noise, batch_size=50)
