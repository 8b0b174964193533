r"""How a chain comes to equilibrium: limits of powers, the spectrum, total variation, the mixing time.

Limit.       $P^n \to \Pi$ where no closed class has a period; row $i$ of $\Pi$ mixes the equilibria of the
             closed classes by the probabilities of ending in them. With a period only the averages
             $\frac1n\sum_{t<n}P^t \to \Pi$ converge (Cesaro).
Rate.        $\|p_0P^n - \pi\| = O(|\lambda_2|^n)$; the gap is $1 - |\lambda_2|$. For a reversible chain
             $(t_{\mathrm{rel}} - 1)\log\frac1{2\varepsilon} \le t_{\mathrm{mix}}(\varepsilon) \le
             t_{\mathrm{rel}}\log\frac1{\varepsilon\pi_{\min}}$ with $t_{\mathrm{rel}}$ = 1/gap.
Cost.        $O(K^3)$; the curve of distances costs a product with $P$ per step and start.
References.  Levin, Peres and Wilmer (2009) chapters 4 and 12.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.module import HostResult, field
from tractable.core.verdict import Verdict
from tractable.inference.chains.finite_analysis import distance_path, steps_until_near
from tractable.statespace.markov_chain import equilibrium, passage

if TYPE_CHECKING:
    from tractable.statespace.markov_chain.chain import MarkovChain

__all__ = ["Limit", "Spectrum", "limit", "mixing_time", "spectrum", "total_variation"]


class Spectrum(HostResult):
    """Eigenvalues of a transition matrix, the largest modulus first, and what they say of its speed."""

    eigenvalues: np.ndarray
    second: float = field(static=True, about="the largest modulus but that of one eigenvalue 1")
    reversible: bool = field(static=True)

    _shown = ("eigenvalues", "second", "gap", "relaxation_time", "reversible")

    @property
    def gap(self) -> float:
        r"""$1 - |\lambda_2|$: zero for a chain that does not settle."""
        return 1 - self.second

    @property
    def relaxation_time(self) -> float:
        """Steps in which distances fall by a factor of $e$, in the long run."""
        return np.inf if self.gap <= 0 else 1 / self.gap


class Limit(HostResult):
    r"""$\lim P^n$, or the limit of its averages over time where powers do not converge."""

    matrix: np.ndarray
    converges: bool = field(static=True)
    same_rows: bool = field(static=True)

    @property
    def verdict(self) -> Verdict:
        """Whether powers converge, and whether the start is forgotten."""
        if not self.converges:
            said = "Powers do not converge (a period); this is the limit of their averages over time."
            return Verdict(False, said)
        if not self.same_rows:
            return Verdict(False, "Powers converge, but to a limit that depends on the start.")
        return Verdict(True, "Powers converge: every row is the stationary distribution.")


def spectrum(chain: "MarkovChain") -> Spectrum:
    """All eigenvalues; those of a reversible chain are found by a symmetric problem, and are real."""
    dense = np.asarray(chain.dense, float)
    found = chain.classify()
    reversible = found.is_irreducible and chain.is_reversible()
    if reversible:
        root = np.sqrt(chain.stationary())
        symmetric = root[:, None] * dense / root
        values: np.ndarray = np.linalg.eigvalsh(0.5 * (symmetric + symmetric.T))
    else:
        values = np.linalg.eigvals(dense)
    values = values[np.argsort(-np.abs(values), kind="stable")]
    others = np.delete(values, np.argmin(np.abs(values - 1)))
    # whether another eigenvalue lies on the circle is known without rounding
    stuck = not found.is_aperiodic or int(found.closed.sum()) > 1
    return Spectrum(values, 1.0 if stuck else float(np.abs(others).max(initial=0.0)), reversible)


def limit(chain: "MarkovChain") -> Limit:
    r"""$\Pi$: the probabilities of ending in each closed class, times the equilibrium of that class."""
    found = chain.classify()
    rows = equilibrium.equilibria(chain).distributions
    ends = np.zeros((chain.num_states, len(rows)))
    for k, label in enumerate(np.flatnonzero(found.closed)):
        ends[found.labels == label, k] = 1.0
    if len(found.transient_states):
        ends[~found.recurrent] = passage.absorption(chain).probabilities
    return Limit(ends @ rows, found.is_aperiodic, len(rows) == 1)


def total_variation(chain: "MarkovChain", num_steps: int, start: Any = None) -> np.ndarray:
    """The distance to equilibrium at each time, from `start` or from the worst state."""
    starts = np.eye(chain.num_states) if start is None else np.asarray(start)[None, :]
    pi = equilibrium.stationary(chain)
    return distance_path(chain.transition, starts, pi, check_count("num_steps", num_steps, 0))


def mixing_time(chain: "MarkovChain", tol: float = 0.25) -> float:
    """The first time at which every start is within `tol` of equilibrium."""
    check(0 < tol < 1, "tol", "between 0 and 1", tol)
    return float(steps_until_near(np.asarray(chain.dense, float), equilibrium.stationary(chain), tol))
