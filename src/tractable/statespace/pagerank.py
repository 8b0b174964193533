r"""PageRank: how often a random surfer is on each page, with a proven bound on its error.

Model.       With probability $1 - p$ the surfer follows a link of the page, with $p$ = `teleport` she jumps
             to a page drawn from $v$ = `personalisation` (uniform if left out): $x = (1 - p)\,xK + p\,v$.
Bound.       The map contracts by $1 - p$ in the 1-norm: after a step from $x$ to $x'$,
             $\|x' - x^*\|_1 \le \frac{1 - p}{p}\|x' - x\|_1$, plus $1/p$ times the rounding of one step. The
             second eigenvalue is at most $1 - p$, and equals it where the web falls into closed parts.
Unique.      For $p > 0$ always. For $p = 0$ only with one closed set of pages; otherwise the answer is where
             a surfer ends who begins at $v$, and the verdict says that another start has another answer.
Cost.        One pass over the links per step, about $\log\mathrm{tol}/\log(1 - p)$ steps at most.
References.  Page, Brin, Motwani and Winograd (1999); Haveliwala and Kamvar (2003).
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from tractable.core.checks import check, check_count, check_entries
from tractable.core.host_random import generator
from tractable.core.iterate import Ended, Status
from tractable.core.keys import as_key
from tractable.core.module import HostResult, field
from tractable.core.progress import progress_bar
from tractable.core.verdict import Verdict
from tractable.statespace.links import Surfer, Web, as_web
from tractable.statespace.markov_chain.chain import MarkovChain
from tractable.statespace.markov_chain.drawing import RowSampler, draw_from

__all__ = ["PageRank", "pagerank", "simulate_surfer", "surfer_chain"]

_FEW = 1000  # pages up to which a web without teleportation is solved exactly


class PageRank(Ended, HostResult):
    """Scores of pages that sum to one; of several personalisations, one row each."""

    scores: np.ndarray
    error_bound: float = field(about="the 1-norm of the error is at most this; NaN where none is known")
    residual: float
    num_steps: int = field(static=True)
    code: int = field(static=True)
    teleport: float = field(static=True)
    num_closed: int = field(
        static=True, show=False
    )  # sets of pages that are never left; 1 with teleportation
    names: tuple[Hashable, ...] | None = field(static=True, show=False)

    @property
    def verdict(self) -> Verdict:
        """Whether the scores are the only ones, and within the tolerance."""
        numbers = {"error_bound": self.error_bound, "residual": self.residual, "steps": self.num_steps}
        if self.num_closed > 1:
            said = (
                f"Not unique: {self.num_closed} sets of pages are never left; another start has other scores."
            )
            return Verdict(False, f"{said} Give `teleport` above zero.", numbers)
        if not self.status.ok:
            return Verdict(False, self.status.sentence, numbers)
        if np.isnan(self.error_bound):
            said = f"Not certified: without teleportation no bound is known (residual {self.residual:.2g})."
            return Verdict(False, said, numbers)
        return Verdict(
            True, f"Certified: the scores are off by at most {self.error_bound:.2g} in all.", numbers
        )

    @property
    def order(self) -> np.ndarray:
        """The pages by their scores, the highest first."""
        return np.argsort(-self.scores, axis=-1, kind="stable")

    def top(self, count: int = 10) -> list[tuple[Hashable, float]]:
        """The pages of the highest scores by name."""
        check(self.scores.ndim == 1, "scores", "those of one personalisation", f"shape {self.scores.shape}")
        return [(self._name(i), float(self.scores[i])) for i in self.order[:count].tolist()]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.scores, dtype) if copy else np.asarray(self.scores, dtype)

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, page: Any) -> Any:
        """The score of a page by name (or by number, where pages have none); slices as of `scores`."""
        names: Any = self.names
        if names is not None and isinstance(page, Hashable) and page in names:
            return self.scores[..., names.index(page)]
        place: Any = page
        return self.scores[place]

    def _name(self, page: int) -> Hashable:
        return page if self.names is None else self.names[page]

    def _columns(self) -> dict[str, list]:
        if self.scores.ndim > 1:
            return {}
        best = self.order[:24].tolist()
        return {"page": [str(self._name(i)) for i in best], "score": self.scores[best].tolist()}


def pagerank(
    adjacency: Any,
    teleport: float | int = 0.15,
    personalisation: Any = None,
    dangling: Any = "teleport",
    *,
    names: Sequence[Hashable] | None = None,
    num_pages: int | None = None,
    tol: float = 1e-10,
    max_steps: int = 10_000,
    progress: bool = True,
) -> PageRank:
    r"""Scores of the pages of a web, $A_{ij}$ = `adjacency` the weight of the links from $i$ to $j$.

    `adjacency` is a square matrix (dense or sparse), a NetworkX graph, or edges: a tuple (sources, targets[,
    weights]), an array of shape (m, 2), or pairs of names. `personalisation` are weights of pages, a mapping
    from pages to weights, or a matrix with one set of weights in each row. What happens on pages without
    links is `dangling`: "teleport", "uniform", "others", "absorb", or weights. The error of the scores in the
    1-norm is proven to be at most `tol`, or the verdict says what prevents it.

    >>> pagerank([(0, 1), (0, 2), (1, 0), (1, 2), (1, 3), (2, 0), (2, 2), (3, 1), (3, 2)])
    page      score
    2      0.434895
    0       0.27754
    1      0.194856
    3     0.0927091
    Certified: the scores are off by at most 9.2e-11 in all.
    """
    check(0 <= teleport <= 1, "teleport", "a probability", teleport)
    check(tol > 0, "tol", "positive", tol)
    web = as_web(adjacency, num_pages, names)
    v = _teleport_to(personalisation, web)
    surfer = Surfer(web, dangling, v)
    if teleport == 0:
        options = tol, check_count("max_steps", max_steps), progress
        if v.ndim == 1:
            return _without_teleport(surfer, v, *options)
        return _joined([_without_teleport(Surfer(web, dangling, each), each, *options) for each in v.T])
    return _with_teleport(surfer, v, float(teleport), tol, check_count("max_steps", max_steps), progress)


def surfer_chain(
    adjacency: Any, teleport: float | int = 0.15, personalisation: Any = None, dangling: Any = "teleport",
    *, names: Sequence[Hashable] | None = None,
) -> MarkovChain:  # fmt: skip
    """The surfer as a `MarkovChain` with a dense matrix, for webs of up to some thousands of pages."""
    web = as_web(adjacency, None, names)
    v = _one_reader(_teleport_to(personalisation, web))
    matrix = (1 - teleport) * Surfer(web, dangling, v).matrix + teleport * v
    return MarkovChain(matrix / matrix.sum(1, keepdims=True), v, web.names)


def simulate_surfer(
    adjacency: Any, teleport: float | int = 0.15, personalisation: Any = None, dangling: Any = "teleport",
    *, key: Any, num_steps: int = 1000, num_surfers: int = 1000,
) -> np.ndarray:  # fmt: skip
    """How often surfers were on each page: many at once, who all begin by teleportation."""
    web, rng = as_web(adjacency), generator(as_key(key))
    v = _one_reader(_teleport_to(personalisation, web))
    surfer = Surfer(web, dangling, v)
    followed = RowSampler.of(_with_loops(web))
    stuck, fate = web.strengths == 0, surfer.target
    visits, at = np.zeros(web.num_pages), draw_from(v, rng.random(num_surfers))
    for _ in range(check_count("num_steps", num_steps)):
        visits += np.bincount(at, minlength=web.num_pages)
        moved = followed.follow(at, rng.random(num_surfers))
        lost = np.flatnonzero(stuck[at])
        if len(lost) and fate is not None:
            moved[lost] = _thrown(dangling, fate, at[lost], rng)
        jumps = rng.random(num_surfers) < teleport
        moved[jumps] = draw_from(v, rng.random(int(jumps.sum())))
        at = moved
    return visits / visits.sum()


def _with_teleport(
    surfer: Surfer, v: np.ndarray, p: float, tol: float, max_steps: int, progress: bool
) -> PageRank:
    """Steps until the proven bound is within the tolerance, or rounding is all that is left of it."""
    eps, terms = float(np.finfo(float).eps), surfer.rounding
    x, code, change, bound, steps = v, Status.exhausted, np.inf, np.inf, 0
    with progress_bar(None, "PageRank", progress=progress) as bar:
        while steps < max_steps:
            steps += 1
            y = surfer(x)
            y *= 1 - p
            y += p * v
            change, x = float(np.abs(y - x).sum(0).max()), y
            rounding = eps * float((terms @ x).max())
            bound = ((1 - p) * change + rounding) / p
            bar.advance(error=bound)
            if bound <= tol or change <= rounding:
                code = Status.converged if bound <= tol else Status.stalled
                break
    return PageRank(_rows(x), bound, change, steps, int(code), p, 1, surfer.web.names)


def _without_teleport(surfer: Surfer, v: np.ndarray, tol: float, max_steps: int, progress: bool) -> PageRank:
    """Where surfers end who begin at `v`: exactly for few pages, by steps of the lazy chain for many."""
    closed, names = surfer.num_closed(), surfer.web.names
    if surfer.web.num_pages <= _FEW:
        matrix = surfer.matrix
        chain = MarkovChain(matrix / matrix.sum(1, keepdims=True))
        x = (v.T @ chain.limit().matrix).T
        residual = float(np.abs(surfer(x) - x).sum(0).max())
        # the relative error of an entry by elimination is at most of the order n^3 u (O'Cinneide 1993)
        bound = 10 * surfer.web.num_pages**3 * float(np.finfo(float).eps)
        return PageRank(_rows(x), bound, residual, 0, int(Status.completed), 0.0, closed, names)
    x, code, change, steps = v, Status.exhausted, np.inf, 0
    with progress_bar(None, "PageRank", progress=progress) as bar:
        while steps < max_steps:
            steps += 1
            y = surfer(x)
            change = float(np.abs(y - x).sum(0).max())
            x = 0.5 * (x + y)
            bar.advance(change=change)
            if change <= tol:
                code = Status.converged
                break
    return PageRank(_rows(x), float("nan"), change, steps, int(code), 0.0, closed, names)


def _joined(parts: list[PageRank]) -> PageRank:
    """Several readers, each of whom has a chain of her own where dangling pages follow her."""
    worst = max(parts, key=lambda part: (part.num_closed, part.code == Status.exhausted, part.residual))
    scores = np.stack([part.scores for part in parts])
    return PageRank(
        scores,
        worst.error_bound,
        worst.residual,
        worst.num_steps,
        worst.code,
        0.0,
        worst.num_closed,
        worst.names,
    )


def _teleport_to(personalisation: Any, web: Web) -> np.ndarray:
    size = web.num_pages
    if personalisation is None:
        return np.full(size, 1 / size)
    if isinstance(personalisation, Mapping):
        place = {name: i for i, name in enumerate(range(size) if web.names is None else web.names)}
        unknown = [page for page in personalisation if page not in place]
        check(not unknown, "personalisation", "weights of pages that there are", unknown[:3])
        weights = np.zeros(size)
        weights[[place[page] for page in personalisation]] = list(personalisation.values())
    else:
        weights = np.asarray(personalisation, float)
    fits = weights.ndim in (1, 2) and weights.shape[-1] == size
    check(fits, "personalisation", f"{size} weights, or rows of them", f"shape {weights.shape}")
    check_entries(
        "personalisation", weights, lambda w: (w >= 0) & np.isfinite(w), "zero or positive, and finite"
    )
    totals = weights.sum(-1)
    check_entries("personalisation", totals, lambda t: t > 0, "positive somewhere", got="a total of {}")
    return np.ascontiguousarray((weights / totals[..., None]).T)


def _one_reader(v: np.ndarray) -> np.ndarray:
    check(v.ndim == 1, "personalisation", "one set of weights", f"{v.shape[-1]} of them")
    return v


def _rows(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray((x / x.sum(0)).T)


def _with_loops(web: Web) -> Any:
    """Probabilities of links, with a loop on each page that has none."""
    from scipy.sparse import dia_array

    size = (web.num_pages,) * 2
    stuck = web.strengths == 0
    inverse = dia_array(((1 / np.where(stuck, 1.0, web.strengths))[None], [0]), shape=size)
    return inverse @ web.across.T.tocsr() + dia_array((stuck[None].astype(float), [0]), shape=size)


def _thrown(dangling: Any, fate: np.ndarray, at: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Where surfers go from pages without links."""
    if isinstance(dangling, str) and dangling == "others":
        other = rng.integers(0, len(fate) - 1, len(at))
        return other + (other >= at)
    return draw_from(fate, rng.random(len(at)))
