r"""The Bayesian Gaussian mixture by Gibbs sampling: weights integrated out, components sampled or not.

Model.       $\lambda \sim \mathrm{Dir}(\alpha)$, $(\mu_k, \Sigma_k) \sim \mathrm{NIW}(m, \kappa, \nu, \Psi)$,
             $z_n \sim \lambda$, $x_n \mid z_n = k \sim N(\mu_k, \Sigma_k)$.
Weights.     $P(z_n = k \mid z_{-n}) = \int \lambda_k\,p(\lambda \mid z_{-n})\,d\lambda = \frac{N_k^{-n} +
             \alpha_k}{N - 1 + \sum_j \alpha_j}$: the point itself is not counted.
Sampled.     $P(z_n = k \mid \cdot) \propto (N_k^{-n} + \alpha_k)\,N(x_n; \mu_k, \Sigma_k)$, then
             $(\mu_k, \Sigma_k)$ from its normal-inverse-Wishart posterior.
Collapsed.   $P(z_n = k \mid z_{-n}, x) \propto (N_k^{-n} + \alpha_k)\,t(x_n \mid x_m: z_m = k, m \ne n)$.
Cost.        $O(NKd + Kd^3)$ and $O(NKd^2)$ per sweep.
References.  Neal (2000); Rasmussen (2000); Murphy (2012) section 24.2.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.assignment import nearest_centres
from tractable.core.checks import as_float, check, check_count, check_entries, check_finite, has_values
from tractable.core.linalg import psd_factor
from tractable.core.numerics import log_gamma, one_hot
from tractable.core.seeding import far_apart
from tractable.core.types import Array, ArrayLike, Float, Int, Key, PyTree, Scalar
from tractable.distributions.conjugate import log_evidence, posterior, predictive
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.mixture import Mixture
from tractable.distributions.multivariate import Dirichlet
from tractable.distributions.normal_priors import NormalInverseWishart
from tractable.inference.gibbs import loops
from tractable.inference.samplers.sampler import ChainState, Info, LogDensity, Sampler
from tractable.inference.variational.cavi_mixture import default_prior

__all__ = ["CollapsedMixtureGibbs", "MixtureGibbs", "MixtureState", "label_predictive"]


class MixtureState(ChainState):
    """A point of the chain, with running statistics: the counts of the components, and (where they are
    integrated out) the means and Cholesky factors of their posteriors."""

    statistics: Any = ()


class _MixtureSampler(Sampler):
    """What both samplers share: rows, priors, and everything about labels."""

    space: ClassVar[str] = "native"

    rows: Float[Array, "n d"]
    concentration: Float[Array, " k"]
    prior: NormalInverseWishart

    def __init__(
        self,
        rows: ArrayLike,
        num_components: int,
        concentration: ArrayLike = 1.0,
        prior: NormalInverseWishart | None = None,
    ):
        r"""`concentration` is $\alpha$: one number for all components, or one each. By default the prior of a
        component is centred on the rows, with their spread."""
        self.rows = as_float("rows", rows)
        check(self.rows.ndim == 2, "rows", "a matrix, one row per point", f"shape {self.rows.shape}")
        check(self.rows.shape[0] > 0, "rows", "at least one point", "none")
        check_finite("rows", self.rows)
        k = check_count("num_components", num_components)
        alpha = as_float("concentration", concentration)
        fits = alpha.shape in ((), (k,))
        check(fits, "concentration", f"one number, or one for each of {k} components", f"shape {alpha.shape}")
        check_entries("concentration", alpha, lambda v: (v > 0) & (v < np.inf), "positive")
        self.concentration = jnp.broadcast_to(alpha, (k,))
        self.prior = default_prior(self.rows, k) if prior is None else prior
        dim, wanted = self.prior.loc.shape, (self.rows.shape[1],)
        check(dim == wanted, "prior", f"one of {wanted[0]} dimensions, as the rows", f"shape {dim}")

    @property
    def num_components(self) -> int:
        return self.concentration.shape[0]

    def counts(self, labels: Array) -> Int[Array, " k"]:
        """How many points each component holds."""
        return jnp.bincount(labels, length=self.num_components)

    def components(self, labels: Array) -> NormalInverseWishart:
        """The posterior of each component's mean and covariance given the labels, stacked."""
        weights = one_hot(labels, self.num_components).astype(self.rows.dtype).T
        return jax.vmap(lambda w: posterior(self.prior, Gaussian, self.rows, w))(weights)

    def predictive(self, position: PyTree) -> Mixture:
        r"""The density of a new point given labels, all else integrated out: Student t's with the weights
        $\frac{N_k + \alpha_k}{N + \sum_j \alpha_j}$."""
        labels = jnp.asarray(position["labels"])
        each = jax.vmap(lambda c: predictive(c, Gaussian))(self.components(labels))
        return Mixture(label_predictive(self.counts(labels), self.concentration), each)

    def start_labels(self, key: Key) -> Int[Array, " n"]:
        """Labels by the nearest of points that are far apart; chosen on the host, also for a traced key."""
        shape = jax.ShapeDtypeStruct(self.rows.shape[:1], jnp.result_type(int))

        def nearest(words: Any, rows: Any) -> np.ndarray:
            xs = np.asarray(rows)
            seeds = xs[np.asarray(far_apart(np.asarray(words), xs, self.num_components))]
            return nearest_centres(xs, seeds).labels.astype(shape.dtype)

        words = jr.key_data(key)
        if has_values((words, self.rows)):
            return jnp.asarray(nearest(words, self.rows))
        return jax.pure_callback(nearest, shape, words, self.rows, vmap_method="sequential")

    def _log_labels(self, labels: Array) -> Scalar:
        r"""$\log P(z)$ with the weights integrated out."""
        alpha, counts = self.concentration, self.counts(labels)
        total = alpha.sum()
        return (log_gamma(alpha + counts) - log_gamma(alpha)).sum() + (
            log_gamma(total) - log_gamma(total + labels.shape[0])
        )

    def _checked_labels(self, position: PyTree) -> Int[Array, " n"]:
        is_map = isinstance(position, Mapping) and "labels" in position
        check(is_map, "start", "a dict with `labels`; `start(key)` makes one", type(position).__name__)
        labels = position["labels"]
        n, k = self.rows.shape[0], self.num_components
        check(jnp.shape(labels) == (n,), "labels", f"one for each of {n} rows", f"shape {jnp.shape(labels)}")
        check_entries("labels", labels, lambda v: np.isin(v, np.arange(k)), f"from 0 to {k - 1}")
        return jnp.array(labels, int)


class MixtureGibbs(_MixtureSampler):
    """Labels, then means and covariances: positions have `labels` (n,), `mean` (k, d) and `cov` (k, d, d)."""

    def start(self, key: Key) -> dict[str, Array]:
        """Labels of points far apart, and the posterior means of the components given these."""
        labels = self.start_labels(key)
        each = self.components(labels)
        return {"labels": labels, "mean": each.loc, "cov": jax.vmap(lambda c: c.mode[1:])(each)}

    def log_density(self, position: PyTree) -> Scalar:
        r"""$\log p(x, z, \mu, \Sigma)$ with the weights integrated out."""
        labels, mean, cov = position["labels"], position["mean"], position["cov"]
        likelihood = jnp.take_along_axis(self._log_likelihoods(mean, cov), labels[:, None], 1).sum()
        parameters = jnp.concatenate([mean[:, None], cov], axis=1)
        return likelihood + self._log_labels(labels) + self.prior.log_prob(parameters).sum()

    def init(self, log_density: LogDensity, position: PyTree, key: Key) -> MixtureState:
        """The state at `position`; the key is not used."""
        labels = self._checked_labels(position)
        k, d = self.num_components, self.rows.shape[1]
        for name, shape in (("mean", (k, d)), ("cov", (k, d, d))):
            got = jnp.shape(position.get(name))
            check(got == shape, name, f"of shape {shape}", f"shape {got}")
        dtype = self.rows.dtype
        point = {"labels": labels} | {name: jnp.array(position[name], dtype) for name in ("mean", "cov")}
        return MixtureState(point, jnp.asarray(log_density(point), dtype), None, self.counts(labels))

    def step(self, log_density: LogDensity, state: Any, key: Key) -> tuple[MixtureState, Info]:
        """All labels in turn, then all components."""
        key_labels, key_components = jr.split(key)
        logs = self._log_likelihoods(state.position["mean"], state.position["cov"])
        labels, counts = _labels_given(state.position["labels"], logs, self.concentration, key_labels)
        drawn = self.components(labels).sample(key_components)
        point = {"labels": labels, "mean": drawn[:, 0], "cov": drawn[:, 1:]}
        return _arrived(log_density, point, state, counts)

    def _log_likelihoods(self, mean: Array, cov: Array) -> Float[Array, "n k"]:
        def one(m, c):
            factor = psd_factor(c)
            distance = (factor.half_solve((self.rows - m[None]).T) ** 2).sum(0)
            return -0.5 * (distance + factor.log_det() + m.size * float(np.log(2 * np.pi)))

        return jax.vmap(one)(mean, cov).T


class CollapsedMixtureGibbs(_MixtureSampler):
    """Labels alone, means and covariances integrated out: positions are dicts of `labels` (n,)."""

    def start(self, key: Key) -> dict[str, Array]:
        """Labels by the nearest of points that are far apart."""
        return {"labels": self.start_labels(key)}

    def log_density(self, position: PyTree) -> Scalar:
        r"""$\log p(x, z)$, all parameters integrated out."""
        labels = position["labels"]
        weights = one_hot(labels, self.num_components).astype(self.rows.dtype).T
        each = jax.vmap(lambda w: log_evidence(self.prior, Gaussian, self.rows, w))(weights)
        return each.sum() + self._log_labels(labels)

    def init(self, log_density: LogDensity, position: PyTree, key: Key) -> MixtureState:
        """The state at `position`; the key is not used."""
        point = {"labels": self._checked_labels(position)}
        value = jnp.asarray(log_density(point), self.rows.dtype)
        return MixtureState(point, value, None, self.statistics(point["labels"]))

    def step(self, log_density: LogDensity, state: Any, key: Key) -> tuple[MixtureState, Info]:
        """All labels in turn. Statistics start afresh each time: no rounding outlives a sweep."""
        labels = state.position["labels"]
        labels, *statistics = _labels_collapsed(self, labels, self.statistics(labels), key)
        return _arrived(log_density, {"labels": labels}, state, tuple(statistics))

    def statistics(self, labels: Array) -> tuple[Array, Array, Array]:
        r"""Counts, and the posterior means $m_k$ and Cholesky factors of $\Psi_k$, from the labels."""
        each = self.components(labels)
        return self.counts(labels), each.loc, jax.vmap(lambda scale: psd_factor(scale).lower)(each.scale)


def label_predictive(counts: ArrayLike, concentration: ArrayLike) -> Float[Array, " k"]:
    r"""$P(z_{N+1} = k \mid z) = \frac{N_k + \alpha_k}{N + \sum_j \alpha_j}$, the Dirichlet posterior's mean.

    >>> [round(float(p), 6) for p in label_predictive([3, 1, 0], 1.0)]
    [0.571429, 0.285714, 0.142857]
    """
    totals = as_float("counts", counts)
    return Dirichlet(totals + jnp.broadcast_to(as_float("concentration", concentration), totals.shape)).mean


def _arrived(log_density: LogDensity, point: dict, state: Any, statistics: Any) -> tuple[MixtureState, Info]:
    value = jnp.asarray(log_density(point), state.log_density.dtype)
    info = Info(jnp.ones(()), jnp.asarray(1), undefined=jnp.isnan(value))
    return MixtureState(point, value, None, statistics), info


def _labels_given(labels: Array, logs: Array, concentration: Array, key: Key) -> tuple[Array, Array]:
    uniforms = jr.uniform(key, labels.shape, logs.dtype)
    results = (_kind(labels), jax.ShapeDtypeStruct(concentration.shape, labels.dtype))
    return _looped("redraw_labels", (labels, logs, concentration, uniforms), results)


def _labels_collapsed(sampler: CollapsedMixtureGibbs, labels: Array, start: tuple, key: Key) -> tuple:
    prior, dim = sampler.prior, sampler.rows.shape[1]
    half = (prior.degrees + jnp.arange(labels.shape[0] + 1) + 1) / 2
    log_gammas = log_gamma(half) - log_gamma(half - dim / 2)
    uniforms = jr.uniform(key, labels.shape, sampler.rows.dtype)
    given = (prior.loc, prior.mean_scale, prior.degrees, psd_factor(prior.scale).lower)
    arguments = (labels, sampler.rows, sampler.concentration, given, start, log_gammas, uniforms)
    return _looped("redraw_collapsed", arguments, (_kind(labels), *map(_kind, start)))


def _looped(name: str, arguments: tuple, results: tuple) -> tuple:
    """A loop of `loops` from inside a compiled program.

    Each array that is handed over costs fifty microseconds, however small: all go, and return, as one vector
    of floats, in which labels and counts are exact.
    """
    leaves, structure = jax.tree.flatten(arguments)
    dtype = jnp.result_type(*leaves)
    flat = jnp.concatenate([jnp.reshape(leaf, -1).astype(dtype) for leaf in leaves])
    loop = _Loop(name, structure, tuple((leaf.shape, leaf.dtype.kind == "i") for leaf in leaves))
    total = sum(math.prod(kind.shape) for kind in results)
    found = jax.pure_callback(loop, jax.ShapeDtypeStruct((total,), dtype), flat, vmap_method="sequential")
    ends = np.cumsum([math.prod(kind.shape) for kind in results])[:-1]
    parts = jnp.split(found, ends)
    return tuple(part.reshape(kind.shape).astype(kind.dtype) for part, kind in zip(parts, results))


@dataclass(frozen=True)
class _Loop:
    """A loop by name, as a function of one vector that holds all its arguments."""

    name: str
    structure: Any
    leaves: tuple[
        tuple[tuple[int, ...], bool], ...
    ]  # the shape of each argument, and whether it is whole numbers

    def __call__(self, flat: Any) -> np.ndarray:

        values = np.asarray(flat)
        ends = np.cumsum([math.prod(shape) for shape, _ in self.leaves])[:-1]
        parts = [
            part.reshape(shape).astype(np.int64 if whole else np.float64)
            for part, (shape, whole) in zip(np.split(values, ends), self.leaves)
        ]
        numbers = [part if part.ndim else float(part) for part in parts]
        found = getattr(loops, self.name)(*jax.tree.unflatten(self.structure, numbers))
        return np.concatenate([np.reshape(part, -1) for part in found]).astype(values.dtype)


def _kind(leaf: Array) -> Any:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
