r"""Gibbs sampling of hidden Markov models: whole paths at a time, then conjugate rows.

Blocks.      $z \mid \theta, x$ exactly, by messages forward and draws backward; then $\pi \mid z \sim
             \mathrm{Dir}(\alpha + n_1)$, $A_{i\cdot} \mid z \sim \mathrm{Dir}(\alpha_i + n_{i\cdot})$, tables
             alike, and means and covariances from their normal-inverse-Wishart posterior.
Labels.      The posterior is the same under every renaming of states: those of each kept draw are renamed to
             be nearest to the states of the first; where states are tied or share emissions they keep
             their names, which the ties speak of.
Zeros.       Moves that `hmm` rules out keep probability zero.
Cost.        One forward pass and one draw of paths per sweep.
References.  Scott (2002); Fox et al. (2011).
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.chunks import bucket_size
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, Module, field
from tractable.core.programs import program
from tractable.core.progress import track
from tractable.core.types import Key
from tractable.distributions.conjugate import posterior
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.normal_priors import NormalInverseWishart
from tractable.messages.chain_rows import sample_rows
from tractable.statespace.hmm.emissions import Symbols
from tractable.statespace.hmm.gaussian_emissions import Gaussians
from tractable.statespace.hmm.model import HiddenMarkov, MarkovSums
from tractable.statespace.hmm.sequences import Sequences, as_sequences
from tractable.statespace.hmm.ties import SharedEmissions, draw_laws

__all__ = ["GibbsDraws", "MarkovPrior", "gibbs", "sweep"]


class MarkovPrior(Module):
    """Dirichlet concentrations of `initial`, of rows of `transition` (with `stickiness` more for staying) and
    of rows of `symbols`; `component` is the prior of each state's mean and covariance."""

    initial: Any = 1.0
    transition: Any = 1.0
    stickiness: float = 0.0
    symbols: Any = 1.0
    component: NormalInverseWishart | None = None


class GibbsDraws(HostResult):
    """Draws of the parameters (draws, ...), the share of draws in which each row has each state, and the
    log-likelihood of each draw."""

    initial: Any = field(show=False)
    transition: Any = field(show=False)
    emissions: Any = field(show=False)
    states: Any = field(show=False)
    log_likelihood: Any
    model: HiddenMarkov = field(about="the last draw")

    @property
    def mean_transition(self) -> np.ndarray:
        """The posterior mean of the transition matrix."""
        return np.asarray(self.transition).mean(0)


@takes_key
def gibbs(
    hmm: HiddenMarkov, data: Any, prior: MarkovPrior | None = None, *, key: Key, num_draws: int = 500,
    num_warmup: int = 200, progress: bool = True,
) -> GibbsDraws:  # fmt: skip
    """Draws from the posterior of the parameters and paths, from a start at `hmm` (a fit by `EM`, say)."""
    prior = MarkovPrior() if prior is None else prior
    sequences, random = as_sequences(data, hmm.emissions.row_ndim), generator(key)
    total = check_count("num_warmup", num_warmup, 0) + check_count("num_draws", num_draws)
    kept: dict[str, list] = {"initial": [], "transition": [], "emissions": [], "value": []}
    states = np.zeros((len(sequences.rows), hmm.num_states))
    reference, named = None, hmm.ties is not None or isinstance(hmm.emissions, SharedEmissions)
    for step in track(range(total), total, "Gibbs", progress=progress):
        path, hmm = sweep(random, hmm, sequences, prior)
        if step < num_warmup:
            continue
        reference = hmm if reference is None else reference
        order = np.arange(hmm.num_states) if named else _order(hmm, reference)
        states[np.arange(len(path)), np.argsort(order)[path]] += 1 / num_draws
        kept["initial"].append(np.asarray(hmm.initial)[order])
        kept["transition"].append(np.asarray(hmm.transition)[..., order[:, None], order])
        kept["emissions"].append([part if named else part[order] for part in _parts(hmm)])
        kept["value"].append(float(np.sum(hmm.log_likelihood(sequences))))
    parts = tuple(np.stack(each) for each in zip(*kept["emissions"]))
    first, moves, values = (np.array(kept[name]) for name in ("initial", "transition", "value"))
    return GibbsDraws(first, moves, parts, states, values, hmm)


def sweep(
    random: np.random.Generator, hmm: HiddenMarkov, sequences: Sequences, prior: MarkovPrior
) -> tuple[np.ndarray, HiddenMarkov]:
    """One draw of all paths, and one of the parameters given them."""
    path = sample_rows(hmm._rows(sequences), random)[0]
    check(bool((path >= 0).all()), "data", "possible under the model", "a sequence that is not")
    sums = hmm.labelled_sums(sequences, path)
    first, moves = _moves(random, hmm, sums, prior)
    shared = hmm.emissions.groups if isinstance(hmm.emissions, SharedEmissions) else None
    own: Any = hmm.emissions if shared is None else hmm.emissions.shared  # pyright: ignore[reportAttributeAccessIssue]
    emitting = path if shared is None else np.array(shared)[path]
    if isinstance(own, Symbols):
        counts = np.asarray(sums.emissions) + prior.symbols
        drawn: Any = Symbols(_dirichlet(random, counts, np.ones_like(counts)))
    else:
        fine = isinstance(own, Gaussians)
        check(fine, "hmm", "one of symbols or Gaussians", type(own).__name__)
        drawn = _gaussians(random, sequences, emitting, own.num_states, prior)
    emissions = drawn if shared is None else SharedEmissions(drawn, shared)
    return path, HiddenMarkov(first, moves, emissions, hmm.ties)


def _moves(random: Any, hmm: HiddenMarkov, sums: MarkovSums, prior: MarkovPrior) -> tuple[Any, Any]:
    """The law of the first state and the transition, given the paths."""
    like = np.asarray(hmm.initial), np.asarray(hmm.transition)
    alpha = np.asarray(prior.transition, float) + prior.stickiness * np.eye(hmm.num_states)
    counts = np.asarray(sums.initial), np.asarray(sums.transition)
    if hmm.ties is not None:
        wide = np.broadcast_to(prior.initial, like[0].shape), np.broadcast_to(alpha, like[1].shape)
        return draw_laws(random, hmm.ties, counts, wide, like)
    return (
        _dirichlet(random, counts[0] + prior.initial, like[0]),
        _dirichlet(random, counts[1] + alpha, like[1]),
    )


def _gaussians(random: Any, sequences: Sequences, path: np.ndarray, k: int, prior: MarkovPrior) -> Gaussians:
    check(prior.component is not None, "prior", "one with a `component`, for Gaussians", None)
    rows = np.asarray(sequences.rows, float)
    check(not np.isnan(rows).any(), "data", "without gaps, for Gibbs sampling of Gaussians", "NaN")
    size = bucket_size(len(rows))
    padded, owned = np.zeros((size, rows.shape[1])), np.zeros((k, size))
    padded[: len(rows)] = rows
    owned[path, np.arange(len(rows))] = sequences.row_weights
    key = jr.key(int(random.integers(2**63)))
    drawn = np.asarray(_draw_components(prior.component, jnp.asarray(padded), jnp.asarray(owned), key))
    return Gaussians(drawn[:, 0], drawn[:, 1:])


@program
def _draw_components(prior: Any, rows: Any, owned: Any, key: Key) -> Any:
    def one(weights, key):
        return posterior(prior, Gaussian, rows, weights).sample(key)

    return jax.vmap(one)(owned, jr.split(key, owned.shape[0]))


def _dirichlet(random: Any, concentration: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Rows drawn from Dirichlet laws over the entries that are possible."""
    draws = np.where(like > 0, random.standard_gamma(np.where(like > 0, concentration, 1.0)), 0.0)
    return draws / draws.sum(-1, keepdims=True)


def _parts(hmm: HiddenMarkov) -> list[np.ndarray]:
    emissions: Any = getattr(hmm.emissions, "shared", hmm.emissions)
    if isinstance(emissions, Symbols):
        return [np.asarray(emissions.table)]
    return [np.asarray(emissions.means), np.asarray(emissions.covariances)]


def _order(hmm: HiddenMarkov, reference: HiddenMarkov) -> np.ndarray:
    """The renaming of states under which the emissions are nearest to those of the reference."""
    ours, theirs = (_parts(each)[0] for each in (hmm, reference))
    from scipy.optimize import linear_sum_assignment  # a fifth of a second, and only this needs it

    cost = ((theirs[:, None] - ours[None]) ** 2).sum(-1)
    return np.asarray(linear_sum_assignment(cost)[1])
