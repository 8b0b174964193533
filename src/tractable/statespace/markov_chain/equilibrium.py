r"""Stationary distributions of a chain: all of them, by several ways, with how well they hold; time reversed.

Equation.    $\pi P = \pi$, $\sum_i\pi_i = 1$. Each closed class has exactly one solution; all others are
             mixtures of these. One closed class: one solution, whether or not the chain converges to it.
Return.      A recurrent state is come back to after $1/\pi_i$ steps on average.
Balance.     $\pi_iP_{ij} = \pi_jP_{ji}$ implies $\pi P = \pi$; the converse is false. The reversed chain
             $Q_{ji} = \pi_iP_{ij}/\pi_j$ equals $P$ just then.
Methods.     Elimination without subtractions (the default: all digits of every entry), the left eigenvector,
             power iteration on the lazy chain (any size, sparse), time averages of a simulation.
Cost.        $O(K^3)$ by elimination; a product with $P$ per step of the power iteration.
References.  Grassmann, Taksar and Heyman (1985); Norris (1997) sections 1.7 and 1.9.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, dia_array, issparse

from tractable.core.checks import check, check_count, check_option
from tractable.core.keys import as_key
from tractable.core.module import HostResult, field
from tractable.core.verdict import Verdict
from tractable.inference.chains.finite_analysis import communicating_classes, stationary_of

if TYPE_CHECKING:
    from tractable.statespace.markov_chain.chain import MarkovChain

__all__ = ["Equilibria", "balance_error", "equilibria", "reversed_parts", "stationary"]

_ELIMINATED = 4000  # states of one class up to which elimination takes seconds
METHODS = ("elimination", "eigenvector", "power", "simulation")


class Equilibria(HostResult):
    """The stationary distribution of each closed class, one in each row."""

    distributions: np.ndarray
    residuals: np.ndarray = field(about="the largest entry of |pi P - pi| for each")
    names: tuple[Hashable, ...] = field(static=True, show=False)

    @property
    def unique(self) -> bool:
        return len(self.distributions) == 1

    @property
    def return_times(self) -> np.ndarray:
        r"""Expected steps between visits of a state, $1/\pi_i$ in its class; infinite for transient ones."""
        with np.errstate(divide="ignore"):
            return 1 / self.distributions.sum(0)

    @property
    def verdict(self) -> Verdict:
        """Whether there is one only."""
        numbers = {"count": len(self.distributions), "residual": self.residuals.max()}
        if self.unique:
            return Verdict(True, "Unique: the one stationary distribution of the chain.", numbers)
        said = (
            f"Not unique: {len(self.distributions)} closed classes have one each, and so has every mixture."
        )
        return Verdict(False, said, numbers)

    def _columns(self) -> dict[str, list]:
        rows = {f"class {k}": p.tolist() for k, p in enumerate(self.distributions)}
        times = [float(t) for t in self.return_times]
        return {"state": [str(name) for name in self.names], **rows, "return time": times}


def equilibria(chain: "MarkovChain") -> Equilibria:
    """The stationary distribution of every closed class, by elimination."""
    classes = communicating_classes(_matrix(chain)).closed_members
    rows = np.stack([_of_class(chain, states) for states in classes])
    residuals = np.abs(np.asarray(rows @ chain.transition) - rows).max(1)
    return Equilibria(rows, residuals, _names(chain))


def stationary(
    chain: "MarkovChain", method: str = "elimination", *, tol: float = 1e-14, max_steps: int = 100_000,
    key: Any = None, num_steps: int = 100_000,
) -> np.ndarray:  # fmt: skip
    r"""The one stationary distribution of a chain with one closed class.

    `tol` and `max_steps` belong to "power": until $\|xP - x\|_1 \le$ `tol`; `key` and `num_steps` to
    "simulation", whose error falls with the root of the number of steps.
    """
    check_option("method", method, METHODS)
    classes = communicating_classes(_matrix(chain)).closed_members
    got = f"{len(classes)}, such as {[[_names(chain)[i] for i in states[:3]] for states in classes[:2]]}"
    fix = "Each has its own stationary distribution: `equilibria()` gives them all."
    check(len(classes) == 1, "transition", "a chain with one closed class", got, fix)
    if method == "elimination":
        return _of_class(chain, classes[0])
    if method == "eigenvector":
        return _by_eigenvector(np.asarray(chain.dense, float))
    if method == "power":
        return _by_power(chain.transition, classes[0], tol, check_count("max_steps", max_steps))
    check(key is not None, "key", "given for a simulation", None, "Such as `key=0`.")
    path = chain.sample(as_key(key), num_steps, start=int(classes[0][0]))
    return np.bincount(path, minlength=chain.num_states) / len(path)


def balance_error(chain: "MarkovChain", target: Any) -> float:
    r"""$\max_{ij}|\pi_iP_{ij} - \pi_jP_{ji}|$: zero where detailed balance holds."""
    p = np.asarray(target, float)
    if issparse(chain.transition):
        flow = csr_array(dia_array((p[None], [0]), shape=(len(p),) * 2) @ chain.transition)
        return float(abs(flow - flow.T).max())
    flow = p[:, None] * np.asarray(chain.transition)
    return float(np.abs(flow - flow.T).max())


def reversed_parts(chain: "MarkovChain") -> tuple[Any, np.ndarray]:
    """The transition matrix of the chain seen backwards, and its equilibrium, in which it begins."""
    pi = stationary(chain)
    fix = "Keep the states of its closed class."
    check((pi > 0).all(), "transition", "a chain without transient states", "some of probability zero", fix)
    if issparse(chain.transition):
        sides = [dia_array((each[None], [0]), shape=(len(pi),) * 2) for each in (1 / pi, pi)]
        rows: Any = csr_array(sides[0] @ chain.transition.T @ sides[1])
        return csr_array(dia_array((1 / rows.sum(1)[None], [0]), shape=rows.shape) @ rows), pi
    rows = np.asarray(chain.transition).T * pi / pi[:, None]
    return rows / rows.sum(1, keepdims=True), pi


def _of_class(chain: "MarkovChain", states: np.ndarray) -> np.ndarray:
    if len(states) > _ELIMINATED:
        return _by_power(chain.transition, states, 1e-14, 100_000)
    if issparse(chain.transition):
        found = np.zeros(chain.num_states)
        inner = chain.transition[states][:, states].toarray()
        found[states] = stationary_of(inner, np.arange(len(states)))
        return found
    return stationary_of(np.asarray(chain.transition, float), states)


def _by_eigenvector(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eig(matrix.T)
    vector = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    return vector / vector.sum()


def _by_power(transition: Any, states: np.ndarray, tol: float, max_steps: int) -> np.ndarray:
    """Steps of the lazy chain, which has the same equilibrium and no period."""
    inner = transition[states][:, states] if issparse(transition) else transition[np.ix_(states, states)]
    across = csr_array(inner.T) if issparse(inner) else np.ascontiguousarray(inner.T)
    x, change = np.full(len(states), 1 / len(states)), np.inf
    for _ in range(max_steps):
        moved = across @ x
        change = np.abs(moved - x).sum()
        x = 0.5 * (x + moved)
        x /= x.sum()
        if change <= max(tol, 4 * np.finfo(float).eps):
            break
    fix = "Raise `max_steps` or `tol`; the chain mixes slowly."
    check(
        change <= max(tol, 1e-12),
        "max_steps",
        "enough for the power iteration",
        f"a change of {change:.2g}",
        fix,
    )
    found = np.zeros(transition.shape[0])
    found[states] = x
    return found


def _matrix(chain: "MarkovChain") -> Any:
    return chain.transition if issparse(chain.transition) else csr_array(np.asarray(chain.transition))


def _names(chain: "MarkovChain") -> tuple[Hashable, ...]:
    return tuple(range(chain.num_states)) if chain.names is None else chain.names
