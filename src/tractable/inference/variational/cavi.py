r"""Coordinate ascent for discrete latent variables: mean field on any product of factor tables.

Model.       $\log p(x, z) = \sum_f \log f(z_f)$ over variables (or blocks of them) with finitely many values;
             $q(z) = \prod_i q_i(z_i)$.
Update.      $\log q_i(z_i) = \sum_{f \ni i} E_{q_{-i}}[\log f(z_f)] + \mathrm{const}$: the maximum of the
             ELBO in $q_i$, in which it is concave. So the ELBO never falls; the limit is a local optimum.
ELBO.        $\sum_f E_q[\log f] + \sum_i H[q_i]$.
Cost.        One contraction per factor and variable per sweep; a joint table is one factor.
References.  Jordan et al. (1999); Bishop (2006) section 10.1; Blei, Kucukelbir and McAuliffe (2017).
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count
from tractable.core.iterate import Run, Status, run_until
from tractable.core.keys import takes_key
from tractable.core.numerics import log_softmax, xlogy
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar

__all__ = ["MeanFieldRun", "discrete_cavi", "factor_cavi", "product_table"]

# Sums over tables round; a true ascent never falls further than this.
_ROUNDING = 1e-10

Marginals = tuple[Float[Array, "..."], ...]


class MeanFieldRun(Run):
    """The factors $q_i$ as `state`, the ELBO of each sweep as `trace`, and how the ascent ended."""

    _shown = ("elbo", "num_steps")

    @property
    def elbo(self) -> float:
        """The ELBO at the end: that of the last finite sweep."""
        values = np.asarray(self.values)
        return float(values[np.isfinite(values)][-1]) if np.isfinite(values).any() else float("nan")


def discrete_cavi(
    log_joint: ArrayLike,
    *,
    blocks: Sequence[Sequence[int]] | None = None,
    key: Key | None = None,
    max_steps: int = 500,
    tol: float = 1e-10,
) -> MeanFieldRun:
    r"""Mean field of $p(z \mid x) \propto$ `exp(log_joint)`, a table with one axis per variable.

    `blocks` groups the axes: within a block the joint distribution is kept (one block is exact inference).
    Each $q_i$ starts uniform, or with `key` at random, which leaves a symmetric saddle.

    >>> run = discrete_cavi(jnp.log(jnp.array([[0.3, 0.1], [0.1, 0.5]])))
    >>> run.status.name, bool(run.elbo <= jnp.log(1.0))
    ('converged', True)
    """
    table = as_float("log_joint", log_joint)
    axes = list(range(table.ndim))
    groups = [[i] for i in axes] if blocks is None else [list(block) for block in blocks]
    flat = [i for group in groups for i in group]
    check(sorted(flat) == axes, "blocks", f"each axis 0 to {table.ndim - 1} once", groups)
    shape = [math.prod(table.shape[i] for i in group) for group in groups]
    merged = table.transpose(flat).reshape(shape)
    found = factor_cavi([(range(len(groups)), merged)], key=key, max_steps=max_steps, tol=tol)
    parts = tuple(q.reshape([table.shape[i] for i in group]) for q, group in zip(found.state, groups))
    return MeanFieldRun(parts, found.trace, found.num_steps, found.code)


@takes_key
def factor_cavi(
    factors: Sequence[tuple[Sequence[int], ArrayLike]],
    *,
    key: Key | None = None,
    max_steps: int = 500,
    tol: float = 1e-10,
) -> MeanFieldRun:
    """Mean field of a factor graph: each factor is the indices of its variables and its table of logarithms.

    An entry of minus infinity is impossible; `q` avoids it, and where no `q` of this form can, the run ends
    with the status `not_finite`.
    """
    check(len(factors) > 0, "factors", "at least one", "none")
    scopes = tuple(tuple(int(i) for i in indices) for indices, _ in factors)
    tables = [as_float(f"factors[{k}]", table) for k, (_, table) in enumerate(factors)]
    sizes = _sizes(scopes, tables)
    if key is None:
        start = tuple(jnp.full(size, 1 / size) for size in sizes)
    else:
        keys = jr.split(key, len(sizes))
        start = tuple(jr.dirichlet(keys[i], jnp.ones(size)) for i, size in enumerate(sizes))
    return _climb(scopes, tuple(tables), start, check_count("max_steps", max_steps), jnp.asarray(tol))


def product_table(marginals: Sequence[Array]) -> Array:
    r"""$\prod_i q_i(z_i)$ as one table."""
    letters = [chr(ord("a") + i) for i in range(sum(q.ndim for q in marginals))]
    names, start = [], 0
    for q in marginals:
        names.append("".join(letters[start : start + q.ndim]))
        start += q.ndim
    return jnp.einsum(f"{','.join(names)}->{''.join(letters)}", *marginals)


def _sizes(scopes: tuple, tables: list[Array]) -> list[int]:
    sizes: dict[int, int] = {}
    for k, (scope, table) in enumerate(zip(scopes, tables)):
        name = f"factors[{k}]"
        check(len(scope) == table.ndim, name, f"a table with {len(scope)} axes", f"shape {table.shape}")
        check(len(set(scope)) == len(scope), name, "over different variables", scope)
        for i, n in zip(scope, table.shape):
            check(sizes.setdefault(i, n) == n, name, f"of length {sizes[i]} along variable {i}", n)
        values = np.asarray(table)
        ok = bool((values < np.inf).all() and (values > -np.inf).any())
        check(ok, name, "logarithms below infinity, not NaN, not all minus infinity", "others")
    fix = "Number the variables 0, 1, ... without gaps."
    check(
        sorted(sizes) == list(range(len(sizes))), "factors", "over variables without gaps", sorted(sizes), fix
    )
    return [sizes[i] for i in range(len(sizes))]


def _expected(table: Array, scope: tuple[int, ...], q: Marginals, keep: int | None) -> Array:
    """The expectation of a table under all of its variables but `keep`: minus infinity where the impossible
    has any probability."""
    finite, impossible = jnp.where(table > -jnp.inf, table, 0.0), (table == -jnp.inf).astype(table.dtype)
    for axis in reversed(range(len(scope))):
        if scope[axis] != keep:
            weights = q[scope[axis]]
            finite, impossible = (
                jnp.tensordot(part, weights, ([axis], [0])) for part in (finite, impossible)
            )
    return jnp.where(impossible > 0, -jnp.inf, finite)


def _elbo(scopes: tuple, tables: tuple, q: Marginals) -> Scalar:
    energy = sum(_expected(table, scope, q, None) for scope, table in zip(scopes, tables))
    return jnp.asarray(energy) - sum(xlogy(each, each).sum() for each in q)


@program
def _climb(scopes: tuple, tables: tuple, start: Marginals, max_steps: int, tol: Array) -> MeanFieldRun:
    def sweep(q: Any) -> tuple[Any, Array]:
        q = list(q)
        for i in range(len(q)):
            touching = [(scope, table) for scope, table in zip(scopes, tables) if i in scope]
            logits = sum(_expected(table, scope, tuple(q), i) for scope, table in touching)
            q[i] = jnp.exp(log_softmax(jnp.asarray(logits)))
        return tuple(q), _elbo(scopes, tables, tuple(q))

    found = run_until(sweep, start, max_steps=max_steps, tol=tol)
    return MeanFieldRun(found.state, found.trace, found.num_steps, never_falls(found.trace, found.code))


def never_falls(trace: Float[Array, " n"], code: Array) -> Array:
    """The status `decreased` if a recorded bound fell by more than rounding, else `code` as it is."""
    before, after = trace[:-1], trace[1:]
    fell = (after < before - _ROUNDING * (1 + jnp.abs(before))).any()  # NaN padding compares false
    return jnp.where(fell, int(Status.decreased), code)
