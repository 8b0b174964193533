r"""Continuous variables on factor trees: Gaussian messages in closed form, and any density on a grid.

Messages.    $\mu_{f \to x}(x) = \int f(x_f) \prod_{y \ne x} \mu_{y \to f}(y)\,dy$. For quadratic $\log f$
             each is a Gaussian in information form: sums of precisions and shifts, then a Schur complement.
Grids.       With nodes $x_i$ and weights $w_i$ of a quadrature rule, the integral is $\sum_i w_i(\cdot)$: the
             discrete messages with $w$ as likelihoods. Exact where the rule is.
Cost.        $O(d^3)$ per message for the $d$ coordinates of a factor, against $O(D^3)$ for all at once; for
             $n$ nodes per variable, $O(n^l)$ per factor of $l$ variables.
References.  Weiss and Freeman (2001); Bishop (2006) section 8.4; Koller and Friedman (2009) section 14.2.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import mul
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_entries, is_concrete
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.distributions.gaussian import Gaussian
from tractable.messages.potentials import Table
from tractable.messages.quadratic import Quadratic
from tractable.messages.tree import Schedule, TreeBeliefs, propagate, schedule

__all__ = ["GaussianBeliefs", "Grid", "GridBeliefs", "gaussian_propagate", "grid_propagate"]

Edge = tuple[str, str]


class GaussianBeliefs:
    """Every message as a `Quadratic`, and the Gaussians that follow."""

    def __init__(self, factors: dict[str, Quadratic], plan: Schedule, messages: dict, constant: Any):
        self.factors, self.plan, self.messages, self.constant = factors, plan, messages, constant

    def belief(self, node: str) -> Quadratic:
        """The product at a variable or a factor, not normalised."""
        known = node in self.plan.neighbours
        check(known, "node", f"a variable or a factor among {tuple(self.plan.neighbours)}", repr(node))
        arrived = [self.messages[other, node] for other in self.plan.neighbours[node]]
        return reduce(mul, [self.factors[node], *arrived] if node in self.factors else arrived)

    def marginal(self, node: str) -> Gaussian:
        """The Gaussian of a variable, or of the variables of a factor; an error if it is improper."""
        belief = self.belief(node)
        return (belief.marginal(self.factors[node].names) if node in self.factors else belief).normalised()

    @property
    def log_total(self) -> Scalar:
        r"""$\log \int \prod f$: the log-density of the values given, if the factors are densities."""
        return jnp.asarray(self.constant + sum(self.belief(root).log_total() for root in self.plan.roots))


def gaussian_propagate(
    factors: Mapping[str, Quadratic] | Iterable[Quadratic],
    values: Mapping[str, ArrayLike] | None = None,
    *,
    root: str | None = None,
) -> GaussianBeliefs:
    """Both passes over a forest of quadratic factors; variables with `values` are conditioned on first.

    >>> prior = Quadratic("a", [[1.0]], [0.0])
    >>> step = Quadratic.linear("b", "a", [2.0], noise_precision=1.0)
    >>> round(float(gaussian_propagate([prior, step], {"b": [1.0]}).log_total), 6)
    -0.904719
    """
    known = values or {}
    given = _by_name(factors)
    named = {name: _conditioned(name, f, known) for name, f in given.items()}
    unknown = [v for v in known if not any(v in f.names for f in given.values())]
    check(not unknown, "values", "of variables that some factor holds", unknown)
    kept = {name: f for name, f in named.items() if f.names}
    check(bool(kept), "values", "of fewer than all variables", tuple(known))
    constant = sum(f.constant for f in named.values() if not f.names)
    plan = schedule({name: f.names for name, f in kept.items()}, root)
    messages: dict[Edge, Quadratic] = {}
    for source, target in (*plan.towards, *plan.away):
        arrived = [messages[other, source] for other in plan.neighbours[source] if other != target]
        if source in kept:
            messages[source, target] = _integrated(reduce(mul, [kept[source], *arrived]), source, target)
        else:
            messages[source, target] = reduce(mul, arrived) if arrived else _nothing(source, kept[target])
    return GaussianBeliefs(kept, plan, messages, constant)


class Grid(Module):
    r"""Nodes and weights of a quadrature rule on a line: $\int g \approx \sum_i w_i\,g(x_i)$."""

    points: Float[Array, " n"]
    log_weights: Float[Array, " n"]

    @classmethod
    def uniform(cls, low: float | int, high: float | int, num: int) -> "Grid":
        """Equal spacing (trapezoidal): best for smooth densities that vanish at both ends."""
        check(low < high, "high", f"larger than `low` = {low}", high)
        points = np.linspace(low, high, check_count("num", num, 2))
        weights = np.full(num, (high - low) / (num - 1))
        weights[[0, -1]] /= 2
        return cls(jnp.asarray(points), jnp.asarray(np.log(weights)))

    @classmethod
    def legendre(cls, low: float | int, high: float | int, num: int) -> "Grid":
        """Gauss-Legendre: exact for polynomials of degree `2 num - 1`; best on an interval with hard ends."""
        check(low < high, "high", f"larger than `low` = {low}", high)
        nodes, weights = np.polynomial.legendre.leggauss(check_count("num", num))
        half = (high - low) / 2
        return cls(jnp.asarray(low + half * (nodes + 1)), jnp.asarray(np.log(weights * half)))

    @classmethod
    def hermite(cls, loc: float | int, scale: float | int, num: int) -> "Grid":
        """Gauss-Hermite about `loc`: exact for that normal density times polynomials."""
        check(scale > 0, "scale", "positive", scale)
        nodes, weights = np.polynomial.hermite_e.hermegauss(check_count("num", num, 1, 150))
        logs = np.log(weights) + 0.5 * nodes**2 + np.log(scale)  # weights of dx, not of the normal density
        return cls(jnp.asarray(loc + scale * nodes), jnp.asarray(logs))

    @classmethod
    def states(cls, values: ArrayLike) -> "Grid":
        """A discrete variable with these numbers as states: weights of one."""
        points = as_float("values", values).reshape(-1)
        return cls(points, jnp.zeros(points.shape))


class GridBeliefs:
    """Densities on the nodes, and moments, of each variable."""

    def __init__(self, grids: dict[str, Grid], tree: TreeBeliefs):
        self.grids, self.tree = grids, tree

    def density(self, name: str) -> Array:
        """The density of a variable at its nodes (of a discrete one, its probabilities)."""
        return self._mass(name) * jnp.exp(-self.grids[name].log_weights)

    def mean(self, name: str) -> Scalar:
        """The mean of a variable."""
        return self._mass(name) @ self.grids[name].points

    def variance(self, name: str) -> Scalar:
        """The variance of a variable."""
        return self._mass(name) @ (self.grids[name].points - self.mean(name)) ** 2

    @property
    def log_total(self) -> Scalar:
        r"""$\log \int \prod f$ by the quadrature rule."""
        return jnp.asarray(self.tree.total)

    def _mass(self, name: str) -> Array:
        return self.tree.marginal(name).probs


def grid_propagate(
    factors: Mapping[str, tuple[Any, Callable]] | Iterable[tuple[Any, Callable]],
    grids: Mapping[str, Grid],
    values: Mapping[str, float | int] | None = None,
    *,
    root: str | None = None,
) -> GridBeliefs:
    """Messages by quadrature for factors `(names, log_factor)`, each a function of one number per name.

    A variable with a value in `values` has that value as its only node. The answer is as good as the grids:
    make them finer or wider and see whether it moves.
    """
    fixed = {name: Grid(jnp.full(1, float(v)), jnp.zeros(1)) for name, v in (values or {}).items()}
    nodes = {**grids, **fixed}
    named = _by_name(factors)
    tables = {key: _on_grid(key, names, function, nodes) for key, (names, function) in named.items()}
    used = {name for table in tables.values() for name in table.names}
    likelihoods = {name: jnp.exp(grid.log_weights) for name, grid in nodes.items() if name in used}
    return GridBeliefs(nodes, propagate(tables, likelihoods=likelihoods, root=root))


def _on_grid(key: str, names: Any, function: Callable, grids: Mapping[str, Grid]) -> Table:
    names = (names,) if isinstance(names, str) else tuple(names)
    missing = [name for name in names if name not in grids]
    check(not missing, "grids", f"given for every variable of {key!r}", f"none for {missing}")
    mesh = jnp.meshgrid(*(grids[name].points for name in names), indexing="ij")
    log_values = jax.vmap(function)(*(axis.reshape(-1) for axis in mesh)).reshape(mesh[0].shape)
    must = "a log-density: finite, or -inf where it is zero"
    check_entries(key, log_values, lambda v: v < np.inf, must)
    return Table(names, log_values)


def _by_name(factors: Mapping[str, Any] | Iterable[Any]) -> dict[str, Any]:
    named = factors if isinstance(factors, Mapping) else {f"f{i}": f for i, f in enumerate(factors, 1)}
    check(len(named) > 0, "factors", "at least one potential", "none")
    return {str(name): factor for name, factor in named.items()}


def _conditioned(name: str, factor: Quadratic, values: Mapping[str, ArrayLike]) -> Quadratic:
    check(isinstance(factor, Quadratic), name, "a `Quadratic`", type(factor).__name__, error=TypeError)
    inside = {v: values[v] for v in factor.names if v in values}
    return factor.condition(inside) if inside else factor


def _integrated(product: Quadratic, source: str, target: str) -> Quadratic:
    sent = product.marginal(target)
    if is_concrete(sent.precision) and not np.isfinite(np.asarray(sent.precision)).all():
        others = tuple(name for name in product.names if name != target)
        fix = "Add factors (such as a prior) that pin them down."
        got = f"an integral over {others} at {source!r} that diverges"
        check(False, "factors", "integrable where variables are integrated out", got, fix)
    return sent


def _nothing(name: str, factor: Quadratic) -> Quadratic:
    """The message of a variable that no other factor speaks of."""
    dim = factor.dims[factor.names.index(name)]
    return Quadratic((name,), np.zeros((dim, dim)), np.zeros(dim), 0.0, (dim,), validate=False)
