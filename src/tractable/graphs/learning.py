r"""The tables of a network from complete rows: maximum likelihood and Dirichlet posteriors.

Counts.      $\hat\theta_{jk} = N_{jk} / N_j$ with $N_{jk}$ the weight of the rows with the parents in joint
             state $j$ and the child in state $k$: the likelihood is a product over the rows of the tables.
Prior.       Independent Dirichlet rows stay Dirichlet, $\alpha_{jk} + N_{jk}$. Posterior predictive table:
             $(N_{jk} + \alpha_{jk}) / (N_j + \alpha_j)$; mode: with $\alpha_{jk} - 1$ instead.
             Uniform: $\alpha_{jk} = a$. BDeu: $\alpha_{jk} = s / (q_i k_i)$, $s$ imaginary rows in all.
Cost.        One pass over the rows per family.
References.  Koller and Friedman (2009) chapter 17; Heckerman, Geiger and Chickering (1995); Lauritzen (1996).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_entries, check_option
from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Key, Scalar
from tractable.distributions.multivariate import Dirichlet
from tractable.distributions.table_axes import TableAxes
from tractable.distributions.tables import ConditionalTable
from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.coded_rows import CodedRows, coded_rows
from tractable.graphs.dag import DAG
from tractable.graphs.scores import as_dag, dirichlet_term

__all__ = [
    "DirichletPrior", "NetworkPosterior", "as_prior", "fit_network", "network_posterior", "rows_of",
]  # fmt: skip


@dataclass(frozen=True)
class DirichletPrior:
    """Dirichlet rows for the tables of a network: `DirichletPrior.uniform(1.0)`, `.bdeu(10.0)`, `.of({...})`.

    `point` says which table stands for the posterior: its `mean`, the posterior predictive, or its `mode`.
    """

    kind: str
    size: float = 1.0
    given: Mapping[str, Any] | None = None
    point: str = "mean"

    def __post_init__(self) -> None:
        check_option("kind", self.kind, ("uniform", "bdeu", "given"))
        check_option("point", self.point, ("mean", "mode"))
        check(self.size > 0 and np.isfinite(self.size), "size", "positive and finite", self.size)

    @classmethod
    def uniform(cls, count: float | int = 1.0, point: str = "mean") -> "DirichletPrior":
        """`count` imaginary rows in every cell (K2 and Laplace's rule: one)."""
        return cls("uniform", float(count), None, point)

    @classmethod
    def bdeu(cls, equivalent_sample_size: float | int = 10.0, point: str = "mean") -> "DirichletPrior":
        """So many imaginary rows for the whole table of each variable, spread evenly over its cells."""
        return cls("bdeu", float(equivalent_sample_size), None, point)

    @classmethod
    def of(cls, concentrations: Mapping[str, Any], point: str = "mean") -> "DirichletPrior":
        """An array of concentrations per variable (parents first), or one number for all its cells."""
        return cls("given", 1.0, concentrations, point)

    def concentration(self, name: str, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
        """The concentrations of the table of `name`."""
        if self.kind == "bdeu":
            return np.full(shape, self.size / np.prod(shape))
        if self.kind == "uniform":
            return np.full(shape, self.size)
        given = self.given or {}
        check(name in given, "prior", "given for every variable", f"none for {name!r}")
        values = np.asarray(as_float("prior", given[name]))
        fits = values.shape in ((), shape)
        check(fits, f"prior of {name!r}", f"a number or an array of shape {shape}", f"shape {values.shape}")
        check_entries(f"prior of {name!r}", values, lambda v: (v > 0) & np.isfinite(v), "positive and finite")
        return np.broadcast_to(values, shape).astype(float)


class NetworkPosterior(Module):
    """Dirichlet rows of every table after the data; each is `concentrations[name]`, parents first."""

    concentrations: dict[str, Float[Array, "..."]]
    log_evidence: Scalar | float
    dag: DAG = field(static=True)
    axes: TableAxes = field(static=True)

    def mean(self) -> BayesNet:
        """The posterior predictive network: the probability of the next row, parameters integrated out."""
        means = {name: a / a.sum(-1, keepdims=True) for name, a in self.concentrations.items()}
        return _network(self.dag, self.axes, means)

    def mode(self) -> BayesNet:
        """The tables of highest posterior density, where every concentration is at least one."""
        tables = {}
        for name, alpha in self.concentrations.items():
            excess = np.asarray(alpha) - 1
            ok = (excess >= 0).all(-1) & (excess.sum(-1) > 0)
            if not ok.all():
                where = _condition(self.dag, self.axes, name, ~ok)
                fix = "Use the mean, or a prior of concentrations of at least one."
                check(False, f"posterior of {name!r}", "with a mode in every row", f"none with {where}", fix)
            tables[name] = excess / excess.sum(-1, keepdims=True)
        return _network(self.dag, self.axes, tables)

    def sample_tables(self, key: Key, num_draws: int = 1) -> dict[str, Float[Array, "draws ..."]]:
        """Independent draws of all tables, one leading axis of draws."""
        keys = jr.split(key, len(self.concentrations))
        return {
            name: Dirichlet(alpha).sample(each, (num_draws,))
            for each, (name, alpha) in zip(keys, self.concentrations.items())
        }

    def sample(self, key: Key) -> BayesNet:
        """One network from the posterior."""
        drawn = {name: draws[0] for name, draws in self.sample_tables(key).items()}
        return _network(self.dag, self.axes, drawn)


def fit_network(
    frame: Any,
    structure: Any,
    prior: DirichletPrior | float | int | str | None = None,
    states: Mapping[str, Sequence[Any]] | None = None,
    weights: Any = None,
) -> BayesNet:
    """The network with the given structure and tables fitted to complete rows.

    Without a prior, by maximum likelihood: a joint state of parents that no row has is then an error, since
    its row is undefined. A number is a uniform prior of that many imaginary rows per cell; `"bdeu"` and
    `"k2"` are `DirichletPrior.bdeu(10)` and `DirichletPrior.uniform(1)`. `states` may name unseen states.

    >>> rows = {"x1": [0, 0, 0, 1], "x3": [0, 1, 1, 1]}
    >>> fit_network(rows, {"x3": ["x1"]}).tables["x3"].probs.round(6).tolist()
    [[0.333333, 0.666667], [0.0, 1.0]]
    """
    chosen = as_prior(prior)
    if chosen is not None:
        posterior = network_posterior(frame, structure, chosen, states, weights)
        return posterior.mean() if chosen.point == "mean" else posterior.mode()
    dag, rows = rows_of(frame, structure, states, weights)
    tables = {}
    for name in dag.names:
        counts = rows.counts((*dag.parents(name), name))
        totals = counts.sum(-1, keepdims=True)
        if (totals == 0).any():
            where = _condition(dag, rows.axes, name, totals[..., 0] == 0)
            must, fix = "some for each joint state of its parents", "Give a `prior`, such as 1.0 or 'bdeu'."
            check(False, f"rows for {name!r}", must, f"none with {where}", fix)
        tables[name] = counts / totals
    return _network(dag, rows.axes, tables)


def network_posterior(
    frame: Any,
    structure: Any,
    prior: DirichletPrior | float | int | str = 1.0,
    states: Mapping[str, Sequence[Any]] | None = None,
    weights: Any = None,
) -> NetworkPosterior:
    """The exact posterior of all tables and the log-evidence of the structure: what `bdeu` and `k2` score."""
    chosen = as_prior(prior)
    check(chosen is not None, "prior", "given for a posterior", None)
    assert chosen is not None
    dag, rows = rows_of(frame, structure, states, weights)
    after, evidence = {}, 0.0
    for name in dag.names:
        counts = rows.counts((*dag.parents(name), name))
        alpha = chosen.concentration(name, counts.shape)
        after[name] = jnp.asarray(alpha + counts)
        evidence += dirichlet_term(counts, alpha) - dirichlet_term(counts.sum(-1), alpha.sum(-1))
    return NetworkPosterior(after, evidence, dag, rows.axes)


def as_prior(prior: DirichletPrior | float | int | str | None) -> DirichletPrior | None:
    """A prior from its name or a number of imaginary rows per cell."""
    if prior is None or isinstance(prior, DirichletPrior):
        return prior
    if isinstance(prior, str):
        check_option("prior", prior, ("bdeu", "k2"))
        return DirichletPrior.bdeu() if prior == "bdeu" else DirichletPrior.uniform()
    return DirichletPrior.uniform(prior)


def rows_of(frame: Any, structure: Any, states: Any = None, weights: Any = None) -> tuple[DAG, CodedRows]:
    """The graph, and the complete columns of its variables."""
    dag = as_dag(structure)
    rows = coded_rows(frame, states, weights)
    absent = [name for name in dag.names if name not in rows.names]
    fix = "A variable that is never seen needs `fit_network_em`."
    check(not absent, "frame", f"a table with the columns {dag.names}", f"none called {absent}", fix)
    return dag, rows.select(dag.names).complete()


def _network(dag: DAG, axes: TableAxes, tables: Mapping[str, Any]) -> BayesNet:
    made = []
    for name in dag.names:
        states = axes.select((*dag.parents(name), name)).states
        made.append(ConditionalTable(name, dag.parents(name), jnp.asarray(tables[name]), states))
    return BayesNet(made)


def _condition(dag: DAG, axes: TableAxes, name: str, wrong: Any) -> str:
    """The first joint state of the parents of `name` whose row is wrong, in words."""
    parents = dag.parents(name)
    return axes.select(parents).describe(np.argwhere(wrong)[0].tolist()) if parents else "no parents"
