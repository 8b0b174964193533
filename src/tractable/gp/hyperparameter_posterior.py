r"""Fully Bayesian Gaussian processes: draws of the hyperparameters, and predictions averaged over them.

Model.       $p(\theta \mid y) \propto p(y \mid X, \theta)\,p(\theta)$ with the function integrated out
             exactly; $p(y_* \mid y) = \int p(y_* \mid y, \theta)\,p(\theta \mid y)\,d\theta \approx$ an equal
             mixture of normals over draws.
Priors.      Distributions of the free numbers (logarithms of what is positive), as in `gp.hyperparameters`; a
             positive leaf without one gets a normal of standard deviation 2 about the logarithm of its value.
Cost.        $O(n^3)$ per step of a chain: for hundreds of rows.
References.  Rasmussen and Williams (2006) section 5.2; Lalchand and Rasmussen (2020).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.elementwise import Exp
from tractable.bijections.support import Rebuild
from tractable.core.checks import check, check_count
from tractable.core.chunks import pad_rows
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.rows import Rows
from tractable.core.types import Array, Float, Key, Scalar
from tractable.distributions.base import Distribution
from tractable.distributions.continuous import Normal
from tractable.distributions.mixture import Mixture
from tractable.gp.hyperparameters import FreePrior, free_process, objective
from tractable.gp.points import Observed, Table, observe
from tractable.gp.regression import GaussianProcess, fitted
from tractable.inference.chains.mcmc import mcmc
from tractable.inference.chains.posterior import ChainPosterior

__all__ = ["HyperparameterPosterior", "sample_hyperparameters", "stacked_moments", "stacked_processes"]

_WIDE = 2.0


class HyperparameterPosterior(Module):
    """Draws of the hyperparameters with their verdict, and some of them kept as processes for predictions."""

    draws: ChainPosterior
    processes: GaussianProcess = field(show=False)  # stacked
    observed: Observed = field(show=False)

    def predict_dist(self, X: Table) -> Mixture:
        """A new target at each row: an equal mixture of the normals of the kept draws."""
        return self._mixture(X, True)

    def latent(self, X: Table) -> Mixture:
        """The function at each row."""
        return self._mixture(X, False)

    def _mixture(self, X: Table, noisy: bool) -> Mixture:
        rows = Rows.of(X, num_columns=self.observed.X.shape[1]).X
        loc, scale = stacked_moments(self.processes, self.observed, pad_rows(rows)[0], noisy)
        loc, scale = (jnp.asarray(np.asarray(a)[:, : len(rows)]) for a in (loc, scale))
        return Mixture(np.full(len(loc), 1 / len(loc)), Normal(loc, scale))


@takes_key
def sample_hyperparameters(
    process: GaussianProcess,
    X: Table,
    y: Any = None,
    weights: Any = None,
    *,
    key: Key,
    priors: Mapping[str, Distribution] | None = None,
    fixed: Sequence[str] = (),
    num_chains: int = 4,
    num_draws: int = 250,
    num_kept: int = 64,
    **options: Any,
) -> HyperparameterPosterior:
    """Draws of the hyperparameters from the values of `process`; `options` go to `inference.mcmc`."""
    free, rebuild, _ = free_process(process, fixed)
    prior = free_process(process, fixed, _completed(free, rebuild, dict(priors or {})))[2]
    observed = observe(X, y, weights)
    start = dict(zip(rebuild.names, np.asarray(free), strict=True))
    args = (rebuild, observed, prior)
    found = mcmc(
        _log_density, start, key=key, num_chains=num_chains, num_draws=num_draws, args=args, **options
    )
    flat = np.stack([np.asarray(found.draws[name]).reshape(-1) for name in rebuild.names], axis=1)
    places = np.linspace(0, len(flat) - 1, min(check_count("num_kept", num_kept), len(flat))).astype(int)
    processes = stacked_processes(rebuild, jnp.asarray(flat[places]))
    return HyperparameterPosterior(found, processes, observed)


def _log_density(values: dict[str, Array], rebuild: Rebuild, observed: Observed, prior: FreePrior) -> Scalar:
    free = jnp.stack([values[name] for name in rebuild.names])
    return objective(free, rebuild, observed, prior)


def _completed(free: Array, rebuild: Rebuild, priors: dict[str, Distribution]) -> dict[str, Distribution]:
    """The priors, with a wide one about the start for each positive leaf that has none."""
    start = 0
    for slot, bijection in zip(rebuild.slots, rebuild.bijections, strict=True):
        given = any(slot.path == name or slot.path.endswith(f".{name}") for name in priors)
        fix = f'Pass `priors={{"{slot.path}": Normal(...)}}`.'
        check(given or isinstance(bijection, Exp), "priors", f"given for `{slot.path}`", "none", fix)
        if not given:
            centre = float(np.asarray(free)[start : start + slot.size].mean())
            priors[slot.path] = Normal(jnp.asarray(centre), jnp.asarray(_WIDE))
        start += slot.size
    return priors


@program
def stacked_processes(rebuild: Rebuild, points: Float[Array, "k p"]) -> GaussianProcess:
    """The processes whose free numbers are the rows of `points`."""
    return eqx.filter_vmap(lambda row: rebuild(row)[0])(points)


@program
def stacked_moments(
    processes: GaussianProcess, observed: Observed, X: Array, noisy: bool
) -> tuple[Float[Array, "k n"], Float[Array, "k n"]]:
    """Means and standard deviations at rows, one line for each of the stacked processes."""
    arrays, rest = eqx.partition(processes, eqx.is_array)

    def one(leaves: Any) -> tuple[Array, Array]:
        process = eqx.combine(leaves, rest)
        found = fitted(process, observed)
        shown = found.predict_dist(X) if noisy else found.latent(X)
        return shown.loc, shown.scale

    return jax.lax.map(one, arrays)
