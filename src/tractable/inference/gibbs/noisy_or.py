r"""Diseases and symptoms: a bipartite noisy-OR network, and Gibbs sampling at a cost linear in its edges.

Model.       Disease $j$ is present with probability $\pi_j$; symptom $i$ stays away with probability
             $P(s_i = 0 \mid d) = (1 - l_i)\prod_j (1 - w_{ij})^{d_j} = e^{-\theta_i}$, where
             $\theta_i = a_i + \sum_j \lambda_{ij} d_j$, $\lambda = -\log(1 - w)$ and $a = -\log(1 - l)$.
Identity.    With $\ell_i(\theta) = -\theta$ for an absent symptom, $\log(1 - e^{-\theta})$ for a present one,
             the log-odds of disease $j$ are $\mathrm{logit}\,\pi_j + \sum_{i \ni j} \ell_i(\theta_i^{-j} +
             \lambda_{ij}) - \ell_i(\theta_i^{-j})$: only its own symptoms, through running sums $\theta$.
Cost.        One visit of each edge per sweep.
References.  Shwe et al. (1991), the QMR-DT network; Heckerman (1990); Pearl (1988) section 4.3.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, check_entries, check_shape
from tractable.core.iterate import run
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.numerics import log1mexp, logit, logsumexp
from tractable.core.support import bounded
from tractable.core.types import Array, ArrayLike, Float, Int, Key, PyTree, Scalar
from tractable.inference.samplers.sampler import ChainState, Info, LogDensity, Sampler

__all__ = ["NoisyOrGibbs", "NoisyOrNetwork", "noisy_or_network"]

_MOST_DISEASES = 20


class NoisyOrNetwork(Module):
    """Diseases, symptoms, and the edges between them: for each, the symptom, the disease and its strength.

    Symptoms are 1 (present), 0 (absent) or -1 (not looked at).
    """

    prior: Float[Array, " diseases"] = field(support=bounded(0.0, 1.0), rank=1)
    leak: Float[Array, " symptoms"] = field(support=bounded(0.0, 1.0), rank=1)
    strength: Float[Array, " edges"] = field(support=bounded(0.0, 1.0), rank=1)
    edges: tuple[tuple[int, int], ...] = field(static=True)  # symptom, disease

    def __check_init__(self) -> None:
        check_shape("strength", self.strength, (len(self.edges),))
        check(len(set(self.edges)) == len(self.edges), "edges", "distinct", "an edge twice")
        for name, value in (("leak", self.leak), ("strength", self.strength)):
            fix = "A cause that never fails makes sums infinite; 0.999999 will do."
            check_entries(name, value, lambda v: v < 1, "below 1", fix)
        for i, j in self.edges:
            inside = 0 <= i < self.num_symptoms and 0 <= j < self.num_diseases
            check(inside, "edges", "pairs (symptom, disease) within the network", (i, j))

    @property
    def num_diseases(self) -> int:
        return self.prior.shape[0]

    @property
    def num_symptoms(self) -> int:
        return self.leak.shape[0]

    def rates(self, diseases: ArrayLike) -> Float[Array, " symptoms"]:
        r"""$\theta_i = -\log P(s_i = 0 \mid d)$."""
        symptom, disease = self._ends
        terms = -jnp.log1p(-self.strength) * jnp.asarray(diseases, self.strength.dtype)[disease]
        return -jnp.log1p(-self.leak) + jax.ops.segment_sum(terms, symptom, self.num_symptoms)

    def log_joint(self, diseases: ArrayLike, symptoms: ArrayLike) -> Scalar:
        r"""$\log P(d, s)$ of the symptoms that were looked at."""
        d = jnp.asarray(diseases)
        present = jnp.where(d == 1, jnp.log(self.prior), jnp.log1p(-self.prior))
        return present.sum() + _log_symptom(self.rates(d), jnp.asarray(symptoms)).sum()

    def sample(self, key: Key) -> tuple[Int[Array, " diseases"], Int[Array, " symptoms"]]:
        """A patient: diseases from their priors, symptoms from the diseases."""
        key_disease, key_symptom = jr.split(key)
        diseases = jr.bernoulli(key_disease, self.prior).astype(int)
        return diseases, self.sample_symptoms(key_symptom, diseases)

    def sample_symptoms(self, key: Key, diseases: ArrayLike) -> Int[Array, " symptoms"]:
        """All symptoms given the diseases."""
        return jr.bernoulli(key, -jnp.expm1(-self.rates(diseases))).astype(int)

    def exact_posterior(self, symptoms: ArrayLike) -> tuple[Float[Array, " diseases"], Scalar]:
        """The probability of each disease given the symptoms, and their log-evidence, by enumeration."""
        count = self.num_diseases
        fix = "Its cost is 2 to that power; use `NoisyOrGibbs`."
        check(count <= _MOST_DISEASES, "network", f"of at most {_MOST_DISEASES} diseases", count, fix)
        return _enumerated(self, _as_symptoms(self, symptoms))

    @property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        pairs = np.asarray(self.edges, int).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]


class NoisyOrGibbs(Sampler):
    r"""Gibbs sampling of the diseases given symptoms: a position is a vector of zeros and ones.

    The running sums $\theta$ are made anew at the start of each sweep, so that rounding does not build up.
    """

    space: ClassVar[str] = "native"

    network: NoisyOrNetwork
    symptoms: Int[Array, " symptoms"]
    children: Int[Array, "diseases most"]  # the symptoms of each disease, padded with one that does not exist
    rates: Float[Array, "diseases most"]  # lambda of each, padded with zeros

    def __init__(self, network: NoisyOrNetwork, symptoms: ArrayLike):
        self.network, self.symptoms = network, _as_symptoms(network, symptoms)
        symptom, disease = network._ends
        order = np.argsort(disease, kind="stable")
        counts = np.bincount(disease, minlength=network.num_diseases)
        column = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = (network.num_diseases, max(int(counts.max(initial=0)), 1))
        children = np.full(shape, network.num_symptoms)
        children[disease[order], column] = symptom[order]
        self.children = jnp.asarray(children)
        strength = -jnp.log1p(-network.strength)[order]
        self.rates = jnp.zeros(shape, strength.dtype).at[disease[order], column].set(strength)

    def log_density(self, position: PyTree) -> Scalar:
        """The joint log-probability of diseases and symptoms."""
        return self.network.log_joint(position, self.symptoms)

    def log_odds(self, disease: Any, position: PyTree) -> Scalar:
        """The log-odds of one disease given all the others and the symptoms."""
        present = jnp.asarray(position)[disease]
        return self._log_odds(self._padded_rates(position), disease, present)[0]

    def start(self, key: Key) -> Int[Array, " diseases"]:
        """All diseases at once where a symptom needs a cause, else a draw of the prior."""
        drawn = jr.bernoulli(key, self.network.prior).astype(int)
        possible = self.log_density(drawn) > -jnp.inf
        return jnp.where(possible, drawn, jnp.ones_like(drawn))

    def init(self, log_density: LogDensity, position: PyTree, key: Key) -> ChainState:
        """The state at `position`; the key is not used."""
        check_shape("start", position, (self.network.num_diseases,))
        position = jnp.array(position, int)
        return ChainState(position, jnp.asarray(log_density(position), self.rates.dtype))

    def step(self, log_density: LogDensity, state: ChainState, key: Key) -> tuple[ChainState, Info]:
        """One sweep over all diseases in order."""
        count = self.network.num_diseases
        # u < sigmoid(odds) where odds > logit(u): infinite odds decide for certain
        hurdles = jr.logistic(key, (count,), self.rates.dtype)

        def redraw(theta, each):
            disease, hurdle, present = each
            odds, without, children = self._log_odds(theta, disease, present)
            drawn = (odds > hurdle).astype(int)
            return theta.at[children].set(without + drawn * self.rates[disease]), (drawn, jnp.isnan(odds))

        theta = self._padded_rates(state.position)
        position, undefined = run(redraw, theta, (jnp.arange(count), hurdles, state.position)).trace
        value = jnp.asarray(log_density(position), state.log_density.dtype)
        info = Info(jnp.ones(()), jnp.asarray(1), undefined=undefined.any() | jnp.isnan(value))
        return ChainState(position, value), info

    def _log_odds(self, theta: Array, disease: Any, present: Array) -> tuple[Scalar, Array, Array]:
        """The log-odds of a disease, the rates of its symptoms without it, and which they are."""
        children, rates = self.children[disease], self.rates[disease]
        symptoms = jnp.append(self.symptoms, -1)[children]
        floor = -jnp.log1p(-jnp.append(self.network.leak, 0.0))[children]
        # the leak alone is left at least; subtraction may round below it, where the logarithm does not exist
        without = jnp.maximum(theta[children] - present * rates, floor)
        gain = _log_symptom(without + rates, symptoms) - _log_symptom(without, symptoms)
        return logit(self.network.prior[disease]) + gain.sum(), without, children

    def _padded_rates(self, position: PyTree) -> Float[Array, " symptoms1"]:
        return jnp.append(self.network.rates(position), 0.0)


@takes_key
def noisy_or_network(
    key: Key,
    num_diseases: int,
    num_symptoms: int,
    *,
    num_causes: int = 4,
    prevalence: tuple[float, float] = (0.01, 0.2),
    strength: tuple[float, float] = (0.2, 0.9),
    leak: tuple[float, float] = (0.001, 0.05),
) -> NoisyOrNetwork:
    """A random network: each symptom has `num_causes` diseases, with numbers uniform in the given ranges."""
    diseases = check_count("num_diseases", num_diseases)
    symptoms = check_count("num_symptoms", num_symptoms)
    causes = check_count("num_causes", num_causes, most=diseases)
    for name, (low, high) in (("prevalence", prevalence), ("strength", strength), ("leak", leak)):
        check(0 <= low <= high < 1, name, "a range within [0, 1)", (low, high))
    key_edges, key_prior, key_strength, key_leak = jr.split(key, 4)
    parents = np.asarray(_parents(key_edges, symptoms, diseases))[:, :causes]
    edges = tuple((i, int(j)) for i, row in enumerate(parents) for j in row)
    return NoisyOrNetwork(
        jr.uniform(key_prior, (diseases,), minval=prevalence[0], maxval=prevalence[1]),
        jr.uniform(key_leak, (symptoms,), minval=leak[0], maxval=leak[1]),
        jr.uniform(key_strength, (len(edges),), minval=strength[0], maxval=strength[1]),
        edges,
    )


def _parents(key: Key, symptoms: int, diseases: int) -> Array:
    """For each symptom all diseases in random order."""
    return jnp.argsort(jr.uniform(key, (symptoms, diseases)), axis=1)


def _log_symptom(theta: Array, symptoms: Array) -> Array:
    """The log-probability of each symptom; zero where it was not looked at."""
    present = symptoms == 1
    some = jnp.where(present & (theta > 0), theta, 1.0)
    log_present = jnp.where(theta > 0, log1mexp(some), -jnp.inf)
    return jnp.where(present, log_present, jnp.where(symptoms == 0, -theta, 0.0))


@jax.jit
def _enumerated(network: NoisyOrNetwork, symptoms: Array) -> tuple[Array, Scalar]:
    count = network.num_diseases
    patients = (jnp.arange(2**count)[:, None] >> jnp.arange(count)[None]) & 1
    logs = jax.lax.map(lambda d: network.log_joint(d, symptoms), patients, batch_size=4096)
    total = logsumexp(logs)
    return jnp.exp(logs - total) @ patients.astype(logs.dtype), total


def _as_symptoms(network: NoisyOrNetwork, symptoms: ArrayLike) -> Int[Array, " symptoms"]:
    symptoms = symptoms if isinstance(symptoms, jax.Array) else np.asarray(symptoms)
    check_shape("symptoms", symptoms, (network.num_symptoms,))
    must = "1 (present), 0 (absent) or -1 (not looked at)"
    check_entries("symptoms", symptoms, lambda v: np.isin(v, (-1, 0, 1)), must)
    return jnp.asarray(symptoms, int)
