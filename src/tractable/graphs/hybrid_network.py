r"""Networks of mixed nodes: tables, conditional Gaussians and functions; exact where the Gaussians allow it.

Model.       Discrete variables with discrete parents; continuous ones
             $y \mid x, s \sim N(w_s^\top x + b_s, v_s)$; and nodes that are functions.
Identity.    Observed continuous values $v$ speak of the discrete variables through $N(v \mid s)$: a factor
             over the discrete parents $s$ of their component, with the hidden continuous ones integrated
             out. A hidden continuous variable is a mixture over $s$ of Gaussians.
Cost.        One Gaussian per joint state of the discrete parents of a connected continuous component.
References.  Lauritzen (1992); Lauritzen and Jensen (2001); Koller and Friedman (2009) chapter 14.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.host_random import generator
from tractable.core.module import Module
from tractable.core.types import Array, Key
from tractable.distributions.continuous import Normal
from tractable.distributions.mixture import Mixture
from tractable.distributions.table_axes import Names
from tractable.distributions.tables import ConditionalTable, JointTable
from tractable.graphs.bayes_net import BayesNet, root_table
from tractable.graphs.dag import DAG
from tractable.graphs.gaussian_network import joint_gaussian
from tractable.graphs.nodes import CallableNode, GaussianNode
from tractable.graphs.potentials import Posterior, Potentials, posterior, predict_cost
from tractable.inference.weighted.ancestral import draw_rows
from tractable.messages.cost import BUDGET, require_fit

__all__ = ["HybridNetwork"]

Node = ConditionalTable | GaussianNode | CallableNode
_MOST_CASES = 100_000


class HybridNetwork(Module):
    """A network of tables, Gaussian nodes and functions.

    >>> z = ConditionalTable("z", (), [0.5, 0.5])
    >>> x = GaussianNode("x", bias=[-1.0, 1.0], variance=[1.0, 1.0], given="z")
    >>> net = HybridNetwork([z, x])
    >>> round(float(net.query("z", {"x": 1.0}).probs[1]), 6)  # 1 / (1 + exp(-2))
    0.880797
    """

    nodes: tuple[Node, ...]  # in topological order

    def __init__(self, nodes: Iterable[Any]):
        found: dict[str, Node] = {}
        for node in nodes:
            kept = root_table(node) if isinstance(node, JointTable) else node
            name = _name(kept)
            check(name not in found, "nodes", "one per variable", f"two nodes for {name!r}")
            found[name] = kept
        check(len(found) > 0, "nodes", "at least one node", "none")
        _check_parents(found)
        order = DAG({name: _parents(node) for name, node in found.items()}).names
        self.nodes = tuple(found[name] for name in order)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The variables, parents before children."""
        return tuple(_name(node) for node in self.nodes)

    @cached_property
    def dag(self) -> DAG:
        """The graph."""
        return DAG({_name(node): _parents(node) for node in self.nodes})

    @cached_property
    def discrete(self) -> BayesNet:
        """The network of the discrete variables alone."""
        return BayesNet([node for node in self.nodes if isinstance(node, ConditionalTable)])

    def log_prob(self, values: Mapping[str, Any]) -> float:
        """The log-probability (of tables) and log-density (of the other nodes) of a complete assignment."""
        missing = [name for name in self.names if name not in values]
        check(not missing, "values", "complete: a value for each variable", f"none for {missing}")
        states = {name: values[name] for name in self.discrete.names}
        total = self.discrete.log_prob(states)
        coded = {**values, **{n: self.discrete.states[n].index(s) for n, s in states.items()}}
        for node in self.nodes:
            if isinstance(node, GaussianNode):
                case = tuple(coded[name] for name in node.given)
                mean = node.bias[case] + node.weights[case] @ jnp.asarray(
                    [float(coded[p]) for p in node.parents]
                )
                total += float(Normal(mean, jnp.sqrt(node.variance[case])).log_prob(float(coded[node.name])))
            elif isinstance(node, CallableNode):
                check(node.log_prob is not None, f"node {node.name!r}", "given with a `log_prob`", None)
                assert node.log_prob is not None
                total += float(node.log_prob(coded[node.name], *(coded[p] for p in node.parents)))
        return total

    def sample(self, key: Key, num_draws: int) -> Any:
        """Ancestral draws as a pandas DataFrame; states by name."""
        import pandas as pd

        count = check_count("num_draws", num_draws)
        key_arrays, key_calls = jr.split(key)
        numbers, drawn = generator(key_arrays), {}
        keys = jr.split(key_calls, (len(self.nodes), count))
        for i, node in enumerate(self.nodes):
            if isinstance(node, ConditionalTable):
                rows = np.asarray(node.probs)[tuple(drawn[name] for name in node.given)]
                drawn[_name(node)] = draw_rows(np.atleast_2d(rows), numbers, count)
            elif isinstance(node, GaussianNode):
                drawn[node.name] = _draw_gaussian(node, drawn, numbers, count)
            else:
                values = [jnp.asarray(drawn[name]) for name in node.parents]
                drawn[node.name] = np.asarray(jax.vmap(node.draw)(keys[i], *values))
        axes = {name: table.axes for name, table in self.discrete.tables.items()}
        return pd.DataFrame({n: axes[n].state_array(n).take(v) if n in axes else v for n, v in drawn.items()})

    def query(self, names: Names, evidence: Mapping[str, Any] | None = None) -> JointTable:
        """The joint table of discrete variables given evidence on any variables."""
        found = self._posterior(evidence).require_possible()
        targets = found.potentials.numbers(names)
        axes = found.potentials.select(targets)
        return JointTable(axes.names, found.joint(targets), axes.states, validate=False)

    def log_evidence(self, evidence: Mapping[str, Any] | None = None) -> float:
        """The log of the probability and density of what was observed."""
        return self._posterior(evidence).log_total

    def density(self, name: str, evidence: Mapping[str, Any] | None = None) -> Mixture:
        """The distribution of a continuous variable given evidence: a mixture over discrete parents."""
        seen = self._continuous(evidence)
        check(name not in seen, "name", "a variable that was not observed", repr(name))
        part = next(part for part in self._components({name, *seen}) if name in part)
        selectors, cases = self._cases(part)
        found = self._posterior(evidence).require_possible()
        weights = found.joint(found.potentials.numbers(selectors)).reshape(-1)
        known = tuple(i for i, each in enumerate(part) if each in seen)
        values = jnp.asarray([seen[part[i]] for i in known])
        mean, variance = _conditionals(*cases, values, part.index(name), known)
        return Mixture(weights, Normal(mean, jnp.sqrt(variance)))

    def _posterior(self, evidence: Mapping[str, Any] | None) -> Posterior:
        """Of the discrete variables: what was seen of the continuous ones adds factors to the tables."""
        seen, base = self._continuous(evidence), self.discrete.potentials
        scopes, logs = list(base.scopes), list(base.logs)
        for part in self._components(seen):
            selectors, cases = self._cases(part)
            known = tuple(i for i, each in enumerate(part) if each in seen)
            values = jnp.asarray([seen[part[i]] for i in known])
            found = _log_densities(*cases, values, known)
            scopes.append(base.numbers(selectors))
            logs.append(np.asarray(found).reshape([base.sizes[i] for i in scopes[-1]]))
        given = {name: value for name, value in (evidence or {}).items() if name not in seen}
        potentials, observed = Potentials(base.axes, tuple(scopes), tuple(logs)), base.read(given)
        require_fit(predict_cost(potentials, observed), BUDGET)
        return posterior(potentials, observed)

    def _continuous(self, evidence: Mapping[str, Any] | None) -> dict[str, float]:
        unknown = [name for name in evidence or {} if name not in self.names]
        check(not unknown, "evidence", f"about variables among {self.names}", unknown)
        discrete = set(self.discrete.names)
        return {name: float(value) for name, value in (evidence or {}).items() if name not in discrete}

    def _components(self, names: Iterable[str]) -> list[tuple[str, ...]]:
        """The named continuous variables and their continuous ancestors, by connected part."""
        nodes = dict(zip(self.names, self.nodes))
        every = {name for each in names for name in (each, *self.dag.ancestors(each))}
        wanted = [name for name in self.names if name in every and name not in self.discrete.tables]
        for name in wanted:
            fix = "Nodes that are functions can be drawn and evaluated, not conditioned on."
            gaussian = isinstance(nodes[name], GaussianNode)
            check(gaussian, name, "a Gaussian node, with such ancestors", "a function", fix)
        return list(self.dag.subgraph(wanted).skeleton().components)

    def _cases(self, part: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Array, Array, Array]]:
        """The discrete parents of a part, and its coefficients, biases and variances for each case."""
        nodes = [self.nodes[self.names.index(name)] for name in part]
        gaussians = [node for node in nodes if isinstance(node, GaussianNode)]
        selectors = tuple(n for n in self.discrete.names if any(n in node.given for node in gaussians))
        sizes = [len(self.discrete.states[name]) for name in selectors]
        count = int(np.prod(sizes))
        check(count <= _MOST_CASES, "network", f"of at most {_MOST_CASES} cases of a continuous part", count)
        W, b, v = (
            np.zeros((count, len(part), len(part))),
            np.zeros((count, len(part))),
            np.zeros((count, len(part))),
        )
        places = dict(zip(selectors, np.indices(sizes).reshape(len(sizes), -1)))
        for i, node in enumerate(gaussians):
            case = tuple(places[name] for name in node.given)
            b[:, i], v[:, i] = np.asarray(node.bias)[case], np.asarray(node.variance)[case]
            W[:, i, [part.index(parent) for parent in node.parents]] = np.asarray(node.weights)[case]
        return selectors, (jnp.asarray(W), jnp.asarray(b), jnp.asarray(v))


def _name(node: Any) -> str:
    kinds = isinstance(node, ConditionalTable | GaussianNode | CallableNode)
    check(kinds, "nodes", "tables, Gaussian nodes or functions", type(node).__name__, error=TypeError)
    if isinstance(node, ConditionalTable):
        check(len(node.targets) == 1, "nodes", "tables of one target each", node.targets)
        return node.targets[0]
    return node.name


def _parents(node: Node) -> tuple[str, ...]:
    if isinstance(node, ConditionalTable):
        return node.given
    return (*node.given, *node.parents) if isinstance(node, GaussianNode) else node.parents


def _check_parents(nodes: Mapping[str, Node]) -> None:
    sizes = {name: node.probs.shape[-1] for name, node in nodes.items() if isinstance(node, ConditionalTable)}
    check(bool(sizes), "nodes", "at least one table among them", "none", "Use `GaussianNetwork`.")
    for name, node in nodes.items():
        unknown = [parent for parent in _parents(node) if parent not in nodes]
        check(not unknown, f"parents of {name!r}", f"among the nodes {tuple(nodes)}", unknown)
        discrete = node.given if isinstance(node, ConditionalTable | GaussianNode) else ()
        wrong = [parent for parent in discrete if parent not in sizes]
        check(not wrong, f"discrete parents of {name!r}", "tables", wrong)
        if isinstance(node, GaussianNode):
            wrong = [parent for parent in node.parents if parent in sizes]
            check(not wrong, f"continuous parents of {name!r}", "no tables", wrong, "Name them in `given`.")
            wanted = tuple(sizes[parent] for parent in node.given)
            check(
                node.variance.shape == wanted,
                f"variance of {name!r}",
                f"of shape {wanted}",
                node.variance.shape,
            )


def _draw_gaussian(
    node: GaussianNode, drawn: Mapping[str, Any], generator: np.random.Generator, count: int
) -> Any:
    case = tuple(drawn[name] for name in node.given)
    mean = np.broadcast_to(np.asarray(node.bias)[case], (count,)).copy()
    for j, parent in enumerate(node.parents):
        mean += np.asarray(node.weights)[..., j][case] * drawn[parent]
    return mean + np.sqrt(np.asarray(node.variance)[case]) * generator.standard_normal(count)


@partial(jax.jit, static_argnums=4)
def _log_densities(W: Array, b: Array, v: Array, values: Array, known: tuple[int, ...]) -> Array:
    """The log-density of some coordinates for each case."""
    return jax.vmap(lambda *case: joint_gaussian(*case).marginal(known).log_prob(values))(W, b, v)


@partial(jax.jit, static_argnums=(4, 5))
def _conditionals(
    W: Array, b: Array, v: Array, values: Array, at: int, known: tuple[int, ...]
) -> tuple[Array, Array]:
    """Mean and variance of one coordinate given others, for each case."""

    def one(*case):
        joint = joint_gaussian(*case).marginal((at, *known))
        found = joint.conditional(np.arange(1, len(known) + 1), values) if known else joint
        return found.mean[0], found.cov[0, 0]

    return jax.vmap(one)(W, b, v)
