r"""What `tractable cluster` finds: how many clusters, who belongs to them, and what distinguishes them.

Model.       Mixtures of numbers and categories (`latent.mixtures.mixed`), missing entries integrated out.
Number.      $\log p(X \mid k) \approx -\mathrm{BIC}/2$ for each number $k$ with its best shape of
             covariances; $P(k \mid X) \propto e^{-\mathrm{BIC}_k/2}$ if all numbers were as likely before. A
             difference to the best has the standard error $\sqrt{n\,\mathrm{Var}[\log p_a(x_n) - \log
             p_b(x_n)]}$ of the choice of rows: within two of them the verdict calls the number open.
Words.       Columns in the order of $\mathrm{KL}(p_k(x_j)\,\|\,p(x_j))$ in bits: how far the values of the
             cluster differ from those of all rows. A number is described by its mean in standard deviations,
             a category by the state whose probability grows most.
Cost.        One fit per number, shape and start, on at most `MOST_ROWS` rows; the best is fitted to all.
References.  Fraley and Raftery (2002); Vuong (1989).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.cli.tables import Columns
from tractable.core.host_random import generator
from tractable.core.progress import track
from tractable.core.verdict import Verdict
from tractable.distributions.categorical import Categorical
from tractable.distributions.continuous import Normal
from tractable.distributions.divergence import kl
from tractable.inference.expectation_maximisation.em import EM
from tractable.latent.mixtures.mixed import MixedFit, MixedMixture, mixed_mixture

__all__ = ["MOST_ROWS", "Analysis", "Candidate", "Cluster", "Feature", "analyse"]

MOST_ROWS = 20_000  # to choose with
SHAPES = ("spherical", "diagonal", "tied", "full")
_OPEN = 2.0  # standard errors within which a number of clusters is not decided
_PATIENCE = 3  # numbers in a row that are worse, after which no larger one is tried


class Candidate(NamedTuple):
    """The best mixture of one number of clusters."""

    num_clusters: int
    shape: str
    log_evidence: float
    probability: float
    behind: float  # of the best, in nats
    standard_error: float
    verdict: Verdict


class Feature(NamedTuple):
    """How one column differs inside a cluster."""

    column: str
    bits: float
    inside: Any  # a mean, or the probability of `state`
    outside: Any  # of all rows
    state: str | None
    words: str


class Cluster(NamedTuple):
    """One cluster: its share of the rows, how surely they belong to it, and its columns by importance."""

    share: float
    num_rows: int
    certainty: float
    features: tuple[Feature, ...]

    def sentence(self, count: int = 3) -> str:
        """What distinguishes the cluster, in words."""
        words = [feature.words for feature in self.features[:count] if feature.bits >= 0.05]
        return "; ".join(words) if words else "like the rows as a whole"


@dataclass(frozen=True)
class Analysis:
    """Everything that is printed, drawn and written."""

    columns: Columns
    candidates: tuple[Candidate, ...]
    fit: MixedFit
    shares: np.ndarray
    clusters: tuple[Cluster, ...]
    num_used: int

    @property
    def labels(self) -> np.ndarray:
        """The most probable cluster of each row, from 1."""
        return self.shares.argmax(1) + 1

    @property
    def verdict(self) -> Verdict:
        """Whether the fit is sound, the number is decided, and rows know where they belong."""
        best = max(self.candidates, key=lambda each: each.log_evidence)
        others = [each for each in self.candidates if each is not best]
        rivals = [each.num_clusters for each in others if each.behind <= _OPEN * each.standard_error]
        certainty, edge = float(self.shares.max(1).mean()), len(others) > 0 and best is self.candidates[-1]
        said = [self.fit.verdict.sentence]
        if rivals:
            listed = ", ".join(map(str, rivals))
            said.append(f"The number is open: {listed} would do as well with other rows.")
        if edge:
            said.append("The largest number tried is the best: look further with `--most`.")
        said.append(f"Rows belong to their clusters with probability {certainty:.2f} on average.")
        numbers = {"rivals": rivals, "certainty": certainty}
        return Verdict(self.fit.verdict.ok and not rivals and not edge, " ".join(said), numbers)


def analyse(
    columns: Columns, *, num_clusters: int | None, most: int, shape: str | None, num_starts: int, seed: int
) -> Analysis:
    """Choose the number of clusters (unless it is given) and the shape, and describe what is found."""
    rows = (columns.numbers, columns.codes)
    shapes = SHAPES if shape is None else (shape,)
    shapes = shapes if columns.numbers.shape[1] > 1 else (shapes[-1],)  # of one column all are alike
    sample = _sample(columns.num_rows, seed)
    some = tuple(part[sample] for part in rows)
    tried = [num_clusters] if num_clusters is not None else range(1, min(most, len(sample)) + 1)
    fits = _fits(some, tried, shapes, num_starts, seed)
    candidates = _candidates(fits)
    best = max(candidates, key=lambda each: each.log_evidence)
    fit = fits[best.num_clusters][1]
    if len(sample) < columns.num_rows:
        fit = _on_all_rows(fit, rows)
    shares = fit.state.responsibilities(rows)
    shares = shares[:, np.argsort(-shares.sum(0), kind="stable")]
    return Analysis(columns, candidates, fit, shares, _described(columns, shares), len(sample))


def _fits(
    rows: tuple, tried: Iterable[int], shapes: Sequence[str], num_starts: int, seed: int
) -> dict[int, tuple[str, MixedFit]]:
    """The best fit of each number: one start for each shape, and the others for the best shape. It ends
    when `_PATIENCE` numbers in a row are worse than the best."""
    found: dict[int, tuple[str, MixedFit]] = {}
    since = 0
    for k in track(tried, label="Numbers of clusters"):
        keys = iter(jr.split(jr.fold_in(jr.key(seed), k), len(shapes) + 1))

        def fitted(shape: str, count: int, keys: Any = keys, k: int = k) -> tuple[str, MixedFit]:
            algorithm = EM(tol=1e-6, max_steps=300)
            return shape, mixed_mixture(
                rows, k, key=next(keys), covariance=shape, num_starts=count, algorithm=algorithm
            )

        each = min((fitted(shape, 1) for shape in shapes), key=_rank)
        found[k] = each if k == 1 or num_starts == 1 else min(each, fitted(each[0], num_starts), key=_rank)
        best = min(found, key=lambda other: _rank(found[other]))
        since = 0 if best == k else since + 1
        if since >= _PATIENCE:
            break
    return found


def _rank(each: tuple[str, MixedFit]) -> tuple[bool, float]:
    """Sound fits first, then by BIC: near a singularity the likelihood says nothing."""
    return not each[1].state.verdict.ok, each[1].bic


def _sample(num_rows: int, seed: int) -> np.ndarray:
    if num_rows <= MOST_ROWS:
        return np.arange(num_rows)
    return np.sort(generator(jr.key(seed)).choice(num_rows, MOST_ROWS, replace=False))


def _candidates(fits: dict[int, tuple[str, MixedFit]]) -> tuple[Candidate, ...]:
    sound = [k for k in fits if fits[k][1].state.verdict.ok] or list(fits)
    best = min(sound, key=lambda k: fits[k][1].bic)
    heights = {k: -0.5 * fit.bic for k, (_, fit) in fits.items()}
    total = np.logaddexp.reduce([heights[k] for k in sound])
    found = []
    for k, (shape, fit) in fits.items():
        gaps = fits[best][1].log_likelihood - fit.log_likelihood
        error = float(np.sqrt(len(gaps)) * gaps.std()) if k != best else 0.0
        probability = float(np.exp(heights[k] - total)) if k in sound else 0.0
        height = heights[k] if k in sound else -np.inf
        found.append(Candidate(k, shape, height, probability, heights[best] - height, error, fit.verdict))
    return tuple(found)


def _on_all_rows(fit: MixedFit, rows: Any) -> MixedFit:
    run = EM(tol=1e-6, max_steps=100).fit(fit.state, rows)
    model: MixedMixture = run.state
    each = model.log_prob(rows)
    bic = -2 * float(each.sum()) + model.num_parameters * float(np.log(len(each)))
    ends = (np.asarray(run.values), int(run.num_steps), int(run.code))
    return MixedFit(model, *ends, bic, each, fit.num_starts, fit.num_collapsed)


# --- words ---------------------------------------------------------------------------------------------


def _described(columns: Columns, shares: np.ndarray) -> tuple[Cluster, ...]:
    labels = shares.argmax(1)
    found = []
    for k in range(shares.shape[1]):
        own = shares[:, k]
        numbers = [_number(name, x, own) for name, x in zip(columns.number_names, columns.numbers.T)]
        tables = zip(columns.category_names, columns.codes.T, columns.states)
        categories = [_category(name, codes, states, own) for name, codes, states in tables]
        features = sorted((*numbers, *categories), key=lambda each: -each.bits)
        mine = labels == k
        certainty = float(own[mine].mean()) if mine.any() else float("nan")
        found.append(Cluster(float(own.mean()), int(mine.sum()), certainty, tuple(features)))
    return tuple(found)


def _number(name: str, x: np.ndarray, own: np.ndarray) -> Feature:
    """A number by its mean; the divergence is that of normal laws with the same moments."""
    seen = ~np.isnan(x)
    x, own = x[seen], own[seen]
    mean, spread = float(x.mean()), float(x.std())
    total = max(float(own.sum()), 1e-300)
    inside = float(own @ x) / total
    width = max(np.sqrt(float(own @ (x - inside) ** 2) / total), 1e-6 * spread)  # alike: twenty bits
    own_law, all_rows = (Normal(jnp.asarray(m), jnp.asarray(w)) for m, w in ((inside, width), (mean, spread)))
    bits = float(kl(own_law, all_rows)) / np.log(2)
    shift = (inside - mean) / spread
    side = f"{'much ' if abs(shift) >= 1.5 else ''}{'higher' if shift > 0 else 'lower'}"
    kind = side if abs(shift) >= 0.25 else ("more alike" if width < spread else "more spread")
    words = f"{name} {kind} ({inside:.4g} against {mean:.4g}; {shift:+.1f} sd)"
    return Feature(name, bits, inside, mean, None, words)


def _category(name: str, codes: np.ndarray, states: tuple[str, ...], own: np.ndarray) -> Feature:
    """A category by the state whose probability grows most."""
    seen = ~np.isnan(codes)
    index, own = codes[seen].astype(int), own[seen]
    overall = np.bincount(index, minlength=len(states)) / len(index)
    inside = np.bincount(index, own, len(states)) / max(float(own.sum()), 1e-300)
    bits = float(kl(Categorical(inside), Categorical(overall))) / np.log(2)
    top = int((inside - overall).argmax())
    words = f"{name} more often {states[top]} ({inside[top]:.0%} against {overall[top]:.0%})"
    return Feature(name, bits, float(inside[top]), float(overall[top]), states[top], words)
