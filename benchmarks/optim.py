"""`python -m benchmarks optim`: L-BFGS beside SciPy and optax, and variational steps beside NumPyro.

The first table minimises one logistic loss (100 000 rows, 100 columns) from zero until the largest entry of
the gradient is below 1e-6, after compilation, in float64, with a memory of ten pairs everywhere. The second
counts steps of mean-field variational inference per second on one Bayesian logistic regression. A ratio above
one says how many times faster tractable is.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize as scipy_minimize

from tractable.distributions import Bernoulli, Normal
from tractable.inference.variational.vi import vi
from tractable.optim import LBFGS, minimise

NUM_ROWS, NUM_COLUMNS = 100_000, 100
REPEATS = 5
TOLERANCE = 1e-6
NUM_STEPS, LEARNING_RATE = 10_000, 0.01


def problem(num_rows: int, num_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlated features and labels from a logistic model."""
    generator = np.random.default_rng(0)
    mixing = np.eye(num_columns) + 0.5 * generator.normal(size=(num_columns, num_columns)) / num_columns**0.5
    features = generator.normal(size=(num_rows, num_columns)) @ mixing
    signal = features @ generator.normal(size=num_columns) / num_columns**0.5
    return features, (signal + generator.logistic(size=num_rows) > 0).astype(float)


def loss(w, features, labels):
    """The mean logistic loss with a small ridge."""
    z = features @ w
    return jnp.mean(jnp.logaddexp(0.0, z) - labels * z) + 0.5e-3 * w @ w


def best(works: dict[str, Callable[[], Any]], repeats: int = REPEATS) -> dict[str, tuple[float, Any]]:
    """The least seconds and the answer of each work, after one run that compiles.

    The works take turns, so that whatever else the machine does meets all of them.
    """
    answers = {name: jax.block_until_ready(work()) for name, work in works.items()}
    seconds = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):
        for name, work in works.items():
            start = time.perf_counter()
            jax.block_until_ready(work())
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return {name: (seconds[name], answers[name]) for name in works}


def by_tractable(features: jax.Array, labels: jax.Array) -> Callable[[], tuple]:
    """`minimise` with L-BFGS; its tolerance is relative to 1 + |f|, at most 1 + log 2 here."""
    start, tol = np.zeros(features.shape[1]), TOLERANCE / (1 + np.log(2))

    def work():
        run = minimise(loss, start, LBFGS(history=10), args=(features, labels), tol=tol, max_steps=500)
        return run.state, run.num_steps, run.evaluations

    return work


def by_scipy(features: Any, labels: Any, *, compiled: bool) -> Callable[[], tuple]:
    """L-BFGS-B on the same compiled gradient, or on one written in NumPy."""
    slope = jax.jit(jax.value_and_grad(loss))

    def in_numpy(w):
        z = features @ w
        value = np.mean(np.logaddexp(0.0, z) - labels * z) + 0.5e-3 * w @ w
        return value, features.T @ (1 / (1 + np.exp(-z)) - labels) / len(labels) + 1e-3 * w

    def in_jax(w):
        value, gradient = slope(w, features, labels)
        return float(value), np.asarray(gradient)

    start, objective = np.zeros(features.shape[1]), in_jax if compiled else in_numpy
    options = {"maxcor": 10, "gtol": TOLERANCE, "ftol": 0.0, "maxiter": 500}

    def work():
        found = scipy_minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
        return found.x, found.nit, found.nfev

    return work


def by_optax(features: jax.Array, labels: jax.Array) -> Callable[[], tuple]:
    """optax's L-BFGS with its own line search, looped until the same test on the gradient."""
    rule = optax.lbfgs(memory_size=10)

    @jax.jit
    def search(features, labels):
        def objective(w):
            return loss(w, features, labels)

        reuse = optax.value_and_grad_from_state(objective)

        def step(carry):
            w, state, _, k = carry
            value, gradient = reuse(w, state=state)
            update, state = rule.update(gradient, state, w, value=value, grad=gradient, value_fn=objective)
            w = optax.apply_updates(w, update)
            return w, state, jnp.abs(optax.tree.get(state, "grad")).max(), k + 1

        def go_on(carry):
            return (carry[2] > TOLERANCE) & (carry[3] < 500)

        first = jnp.zeros(features.shape[1])
        w, _, _, steps = jax.lax.while_loop(
            go_on, step, (first, rule.init(first), jnp.asarray(jnp.inf), jnp.asarray(0))
        )
        return w, steps

    return lambda: (*search(features, labels), None)


def quasi_newton_table(num_rows: int, num_columns: int) -> Table:
    """One line for each library."""
    features, labels = problem(num_rows, num_columns)
    device = jnp.asarray(features), jnp.asarray(labels)
    found = best({
        "tractable LBFGS": by_tractable(*device),
        "SciPy L-BFGS-B, gradient compiled by JAX": by_scipy(*device, compiled=True),
        "SciPy L-BFGS-B, gradient in NumPy": by_scipy(features, labels, compiled=False),
        "optax.lbfgs": by_optax(*device),
    })  # fmt: skip
    table = Table(title=f"Logistic loss, {num_rows:,} x {num_columns}, until max |gradient| <= {TOLERANCE:g}")
    table.add_column("library")
    for column in ("ms", "ratio", "steps", "gradients", "value", "max |gradient|"):
        table.add_column(column, justify="right")
    mine = found["tractable LBFGS"][0]
    for name, (seconds, (w, steps, evaluations)) in found.items():
        value, slope = jax.value_and_grad(loss)(jnp.asarray(w), *device)
        count = "-" if evaluations is None else str(int(evaluations))
        cells = (f"{1e3 * seconds:.0f}", f"{seconds / mine:.2f}", str(int(steps)), count)
        table.add_row(name, *cells, f"{float(value):.12f}", f"{float(jnp.abs(slope).max()):.1e}")
    return table


def log_joint(w, features, labels):
    """Logistic likelihood and a standard normal prior."""
    return Bernoulli(logits=features @ w).log_prob(labels) + Normal(jnp.zeros_like(w), 1.0).log_prob(w)


def vi_by_tractable(features: jax.Array, labels: jax.Array) -> Callable[[], jax.Array]:
    """Mean-field ascent with one draw a step, and the judgement at its end; returns the bound."""
    start = np.zeros(features.shape[1])
    return lambda: vi(
        log_joint, start, key=jr.key(0), family="mean_field", gradient="pathwise", num_draws=1,
        args=(features, labels), learning_rate=LEARNING_RATE, tol=None, max_steps=NUM_STEPS, block=1000,
        num_eval=100,
    ).elbo  # fmt: skip


def vi_by_numpyro(features: jax.Array, labels: jax.Array) -> Callable[[], jax.Array] | None:
    """The same with NumPyro: `AutoNormal`, one particle, its Adam, its updates in one compiled loop."""
    try:
        import numpyro
        from numpyro import distributions as dist
        from numpyro.infer import SVI, Trace_ELBO
        from numpyro.infer.autoguide import AutoNormal
    except ModuleNotFoundError:
        Console().print("NumPyro is not installed (pip install -e '.[bench]'): its line is missing.")
        return None

    def model(features, labels):
        w = numpyro.sample("w", dist.Normal(jnp.zeros(features.shape[1]), 1.0).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=features @ w), obs=labels)

    guide = AutoNormal(model)
    svi = SVI(model, guide, numpyro.optim.Adam(LEARNING_RATE), Trace_ELBO())
    first = svi.init(jr.key(0), features, labels)
    judge = Trace_ELBO(num_particles=2000)

    @jax.jit
    def work(state, features, labels):
        state = jax.lax.scan(lambda s, _: svi.update(s, features, labels), state, length=NUM_STEPS)[0]
        return -judge.loss(jr.key(1), svi.get_params(state), model, guide, features, labels)

    return lambda: work(first, features, labels)


def variational_table(num_rows: int, num_columns: int) -> Table:
    """One line for each library; both end by judging the bound with 2000 draws."""
    features, labels = (jnp.asarray(array) for array in problem(num_rows, num_columns))
    works = {
        "tractable vi": vi_by_tractable(features, labels),
        "NumPyro SVI": vi_by_numpyro(features, labels),
    }
    found = best({name: work for name, work in works.items() if work is not None})
    table = Table(title=f"Mean-field logistic regression, {num_rows:,} x {num_columns}, {NUM_STEPS:,} steps")
    table.add_column("library")
    for column in ("steps/s", "ratio", "ELBO"):
        table.add_column(column, justify="right")
    mine = found["tractable vi"][0]
    for name, (seconds, elbo) in found.items():
        table.add_row(name, f"{NUM_STEPS / seconds:,.0f}", f"{seconds / mine:.2f}", f"{float(elbo):.2f}")
    return table


def main(arguments: Sequence[str] = ()) -> None:
    """Print both tables; an argument replaces the number of rows of the first."""
    num_rows = int(arguments[0]) if arguments else NUM_ROWS
    console = Console(width=120)
    console.print(quasi_newton_table(num_rows, NUM_COLUMNS))
    console.print(variational_table(1000, 20))
