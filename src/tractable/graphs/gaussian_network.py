r"""Linear-Gaussian networks: one joint Gaussian, conditioned and intervened on by name.

Model.       $x_i \mid x_{pa(i)} \sim N(w_i^\top x_{pa(i)} + b_i, v_i)$: $x = Wx + b + e$, $e \sim N(0, V)$.
Joint.       $x = A(b + e)$ with $A = (I - W)^{-1}$, triangular in topological order:
             $x \sim N(Ab, A V A^\top)$, of precision $(I - W)^\top V^{-1} (I - W)$.
Cost.        One triangular solve, $O(d^3)$ once; a query costs one Cholesky of the evidence.
References.  Shachter and Kenley (1989); Koller and Friedman (2009) section 7.2.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.checks import as_float, check
from tractable.core.module import Module
from tractable.core.types import Array, Float, Key, Scalar
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.distributions.table_axes import Names, as_names
from tractable.graphs.dag import DAG
from tractable.graphs.nodes import GaussianNode

__all__ = ["GaussianNetwork", "joint_gaussian"]


class GaussianNetwork(Module):
    """A network of linear-Gaussian nodes.

    >>> x = GaussianNode("x", variance=1.0)
    >>> y = GaussianNode("y", ["x"], [2.0], bias=1.0, variance=0.5)
    >>> net = GaussianNetwork([x, y])
    >>> round(float(net.query("x", {"y": 3.0}).mean[0]), 6)
    0.888889
    """

    nodes: tuple[GaussianNode, ...]  # in topological order

    def __init__(self, nodes: Iterable[Any]):
        found: dict[str, GaussianNode] = {}
        for node in nodes:
            gaussian = isinstance(node, GaussianNode)
            check(gaussian, "nodes", "Gaussian nodes", type(node).__name__, error=TypeError)
            check(node.name not in found, "nodes", "one per variable", f"two nodes for {node.name!r}")
            found[node.name] = node
        check(len(found) > 0, "nodes", "at least one node", "none")
        for name, node in found.items():
            must = "without discrete parents; `HybridNetwork` has room for them"
            check(not node.given, f"node {name!r}", must, node.given)
            unknown = [parent for parent in node.parents if parent not in found]
            check(not unknown, f"parents of {name!r}", f"among the nodes {tuple(found)}", unknown)
        order = DAG({name: node.parents for name, node in found.items()}).names
        self.nodes = tuple(found[name] for name in order)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The variables, parents before children."""
        return tuple(node.name for node in self.nodes)

    @cached_property
    def dag(self) -> DAG:
        """The graph."""
        return DAG({node.name: node.parents for node in self.nodes})

    @cached_property
    def joint(self) -> Gaussian:
        """The joint distribution of all variables, in the order of `names`."""
        bias = jnp.stack([node.bias for node in self.nodes])
        return joint_gaussian(self.coefficients, bias, jnp.stack([node.variance for node in self.nodes]))

    @property
    def coefficients(self) -> Float[Array, "d d"]:
        """The strictly lower triangular matrix $W$ of the weights: row child, column parent."""
        place = {name: i for i, name in enumerate(self.names)}
        W = jnp.zeros((len(self.names), len(self.names)))
        for i, node in enumerate(self.nodes):
            if node.parents:
                W = W.at[i, np.array([place[parent] for parent in node.parents])].set(node.weights)
        return W

    def query(self, names: Names, evidence: Mapping[str, Any] | None = None) -> Gaussian:
        r"""$p(x_A \mid x_B = v)$, in the order of `names`."""
        wanted, given = self._places(as_names(names)), dict(evidence or {})
        shared = [name for name in as_names(names) if name in given]
        check(not shared, "names", "without the variables of the evidence", shared)
        if not given:
            return self.joint.marginal(wanted)
        known = self._places(tuple(given))
        values = as_float("evidence", [float(value) for value in given.values()])
        part = self.joint.marginal([*wanted, *known])
        return part.conditional(np.arange(len(wanted), len(wanted) + len(known)), values)

    def log_evidence(self, evidence: Mapping[str, Any]) -> Scalar:
        r"""The log-density $\log p(x_B = v)$ of the observed values."""
        known = self._places(tuple(evidence))
        return self.joint.marginal(known).log_prob(jnp.asarray([float(v) for v in evidence.values()]))

    def log_prob(self, values: Mapping[str, Any]) -> Scalar:
        """The log-density of a value for each variable."""
        missing = [name for name in self.names if name not in values]
        check(not missing, "values", "complete: a value for each variable", f"none for {missing}")
        return self.log_evidence({name: values[name] for name in self.names})

    def sample(self, key: Key, num_draws: int, evidence: Mapping[str, Any] | None = None) -> Any:
        """Independent draws as a pandas DataFrame, given evidence if there is any."""
        import pandas as pd

        given = dict(evidence or {})
        self._places(tuple(given))
        free = [name for name in self.names if name not in given]
        check(len(free) > 0, "evidence", "silent about at least one variable", tuple(given))
        draws = np.asarray(self.query(free, given).sample(key, (num_draws,)))
        frame = pd.DataFrame(draws, columns=free).assign(**{name: float(v) for name, v in given.items()})
        return frame[list(self.names)]

    def do(self, actions: Mapping[str, Any]) -> "GaussianNetwork":
        """The network after an intervention, without the variables acted on: their values join the biases."""
        self._places(tuple(actions))
        return GaussianNetwork(_set_parents(node, actions) for node in self.nodes if node.name not in actions)

    def _places(self, names: tuple[str, ...]) -> list[int]:
        unknown = [name for name in names if name not in self.names]
        check(not unknown, "names", f"among {self.names}", unknown)
        return [self.names.index(name) for name in names]


@jax.jit
def joint_gaussian(coefficients: Array, bias: Array, variance: Array) -> Gaussian:
    r"""$N(Ab, A V A^\top)$ with $A = (I - W)^{-1}$, for $W$ strictly lower triangular."""
    eye = jnp.eye(bias.shape[0], dtype=bias.dtype)
    A = jsl.solve_triangular(eye - coefficients, eye, lower=True, unit_diagonal=True)
    noise = Gaussian(bias, jnp.diag(variance))
    return LinearGaussian(A, jnp.zeros_like(bias), jnp.zeros_like(eye)).marginal(noise)[0]


def _set_parents(node: GaussianNode, values: Mapping[str, Any]) -> GaussianNode:
    """The node with some parents fixed: what they add to the mean becomes part of the bias."""
    fixed = jnp.asarray([float(values.get(parent, 0.0)) for parent in node.parents])
    bias = node.bias + node.weights @ fixed if node.parents else node.bias
    left = [i for i, parent in enumerate(node.parents) if parent not in values]
    names = tuple(node.parents[i] for i in left)
    weights = node.weights[np.array(left, int)]
    return GaussianNode(node.name, names, weights, bias=bias, variance=node.variance)
