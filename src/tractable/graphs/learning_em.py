r"""The tables of a network from rows with gaps: EM with hidden variables and any pattern of missing values.

Climb.       Expected counts (graphs.hidden_network) divided by their sums raise the evidence at every step; a
             prior adds its imaginary rows, and the climb is then of the evidence plus the log-prior.
Rows.        Equal rows are taken once, with the sum of their weights.
Cost.        Per step: distinct rows times the cells of the elimination order over the sometimes-missing.
References.  Lauritzen (1995); Dempster, Laird and Rubin (1977); Koller and Friedman (2009) section 19.2.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import ImpossibleEvidence, check, check_count
from tractable.core.chunks import pad_rows
from tractable.core.host_random import generator
from tractable.core.iterate import Run, Status
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Float, Key, Scalar
from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.coded_rows import CodedRows, coded_rows
from tractable.graphs.dag import DAG
from tractable.graphs.hidden_network import FreeTable, HiddenNetwork, Layout, Tables, hidden_network
from tractable.graphs.learning import DirichletPrior, as_prior
from tractable.graphs.scores import as_dag
from tractable.inference.expectation_maximisation.em import EM, best_of
from tractable.inference.expectation_maximisation.prior import WithPrior

__all__ = ["FittedNetwork", "fit_network_em", "missing_posteriors"]


class FittedNetwork(Module):
    """A network fitted by EM: the run says how it ended, its trace is the objective of every step."""

    net: BayesNet
    log_evidence: Scalar | float
    run: Run = field(show=False)
    num_rows: int = field(static=True)
    num_distinct: int = field(static=True)
    missing: tuple[str, ...] = field(static=True)

    @property
    def status(self) -> Status:
        return self.run.status


@takes_key
def fit_network_em(
    frame: Any,
    structure: Any,
    *,
    states: Mapping[str, Sequence[Any]] | None = None,
    prior: DirichletPrior | float | int | str | None = None,
    weights: Any = None,
    start: BayesNet | None = None,
    key: Key | None = None,
    num_starts: int = 1,
    tol: float | int = 1e-8,
    max_steps: int = 1000,
    accelerate: bool = False,
    chunk: int | None = None,
) -> FittedNetwork:
    """Tables by maximum likelihood (or, with a prior, at the posterior's peak) from rows with missing values.

    A variable of the structure without a column is hidden: give its `states`. EM finds a local maximum. It
    starts from `start`, or from `num_starts` random networks (with a `key`), the best fit of which is kept;
    where every variable is seen in some row, one start from uniform tables needs no key. On complete rows the
    result is that of `fit_network`: a prior's imaginary rows are added to the expected counts.
    """
    dag, rows = _rows_and_graph(frame, structure, states, weights, start)
    distinct = rows.distinct()
    codes, counted = distinct.columns.T.astype(np.int32), distinct.weights
    first = _starts(dag, distinct, start, key, check_count("num_starts", num_starts))
    for model in first:
        _check_possible(model, codes)
    given = as_prior(prior)
    if given is not None:
        first = [WithPrior(model, _imaginary(model, given)) for model in first]
    algorithm = EM(float(tol), check_count("max_steps", max_steps), accelerate)
    run = best_of(first, codes, algorithm, weights=counted, chunk=chunk)
    model = run.state.model if given is not None else run.state
    evidence = float(counted @ _row_evidences(model, codes))
    return FittedNetwork(model.network(), evidence, run, rows.num_rows, distinct.num_rows, distinct.missing)


def missing_posteriors(
    net: BayesNet, frame: Any, states: Mapping[str, Sequence[Any]] | None = None
) -> dict[str, Float[Array, "rows states"]]:
    """For each variable that is missing somewhere, its distribution in every row given what is seen there."""
    _, rows = _rows_and_graph(frame, net, states, None, net)
    model = hidden_network(net, rows.missing)
    codes = rows.columns.T.astype(np.int32)
    _check_possible(model, codes)
    padded, _ = pad_rows(codes)
    return {name: table[: len(codes)] for name, table in _posteriors(model, padded).items()}


def _rows_and_graph(
    frame: Any, structure: Any, states: Any, weights: Any, start: BayesNet | None
) -> tuple[DAG, CodedRows]:
    """The graph, and the columns of its variables, those that are hidden as missing in every row."""
    dag = as_dag(structure)
    known = {**(start.states if start is not None else {}), **(states or {})}
    if start is not None:
        same = start.dag.names == dag.names and set(start.dag.edges) == set(dag.edges)
        check(same, "start", "a network with the structure to be fitted", start.dag)
        dag = start.dag
    rows = coded_rows(frame, {name: known[name] for name in known if name in dag.names}, weights)
    unknown = [name for name in dag.names if name not in rows.names]
    fix = f"Give their states: `states={{{unknown[0]!r}: [...]}}`." if unknown else ""
    check(not unknown, "frame", f"a table with the columns {dag.names}", f"none called {unknown}", fix)
    return dag, rows.select(dag.names)


def _starts(
    dag: DAG, rows: CodedRows, start: BayesNet | None, key: Key | None, number: int
) -> list[HiddenNetwork]:
    if start is not None:
        return [hidden_network(start, rows.missing)]
    layout = Layout.of(dag, dict(zip(rows.names, rows.axes.states)), rows.missing)
    shapes = [tuple(rows.sizes[v] for v in scope) for scope in layout.scopes]
    if key is None:
        unseen = [name for name, column in zip(rows.names, rows.columns) if (column < 0).all()]
        fix = (
            "Pass `jr.key(0)`, or a network as `start`: from equal tables EM cannot tell hidden states apart."
        )
        check(not unseen and number == 1, "key", f"given for random starts (hidden: {unseen})", None, fix)
        return [HiddenNetwork(tuple(FreeTable(jnp.full(s, 1 / s[-1])) for s in shapes), layout)]
    numbers = generator(key)
    draws = [[jnp.asarray(numbers.dirichlet(np.ones(s[-1]), s[:-1])) for s in shapes] for _ in range(number)]
    return [HiddenNetwork(tuple(map(FreeTable, tables)), layout) for tables in draws]


def _imaginary(model: HiddenNetwork, prior: DirichletPrior) -> Tables:
    """The imaginary rows of a prior: its concentrations, or one less where its mode is asked for."""
    less = 1.0 if prior.point == "mode" else 0.0
    named = zip(model.layout.names, model.probs)
    pseudo = [prior.concentration(name, probs.shape) - less for name, probs in named]
    ok = all((table >= 0).all() for table in pseudo)
    check(ok, "prior", "of concentrations of at least one where its mode is asked for", prior)
    return tuple(map(jnp.asarray, pseudo))


def _check_possible(model: HiddenNetwork, codes: np.ndarray) -> None:
    evidence = _row_evidences(model, codes)
    if not np.isfinite(evidence).all():
        row = codes[int((~np.isfinite(evidence)).argmax())]
        seen = [(n, s[c]) for n, s, c in zip(model.layout.names, model.layout.states, row) if c >= 0]
        got = "a row of probability zero: " + ", ".join(f"{name}={value!r}" for name, value in seen)
        check(False, "frame", "of rows that the network allows", got, error=ImpossibleEvidence)


def _row_evidences(model: HiddenNetwork, codes: np.ndarray) -> Float[np.ndarray, " rows"]:
    padded, _ = pad_rows(codes)
    return np.asarray(_evidences(model, padded))[: len(codes)]


@program
def _evidences(model: HiddenNetwork, rows: Array) -> Array:
    return model.row_evidence(rows)


@program
def _posteriors(model: HiddenNetwork, rows: Array) -> dict[str, Array]:
    return model.posteriors(rows)
