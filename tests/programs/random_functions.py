# ruff: noqa: E731
"""Random functions that run under NumPy and under JAX alike: the oracle of the analyses of jaxprs.

A function is a list of operations, each of which adds an array to a pool. `TIGHT` operations are generic:
what an entry depends on shows in its value. `LOOSE` ones may hide a dependence at the points that are tried.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

LATENTS = {"s": (), "a": (4,), "m": (3, 4), "z": (3,)}
MARKS = [True] * 4 + [False] * 3


def inputs(rng):
    """Scalar, vector, matrix and whole-numbered latents, then indices, flags and a place that are data."""
    reals = [rng.normal(size=shape) for shape in [(), (4,), (3, 4)]]
    return [
        *map(np.asarray, reals),
        rng.integers(3, size=3),
        np.array([2, 0, 3, 0]),
        np.array([True, False, True, True]),
        np.array(1),
    ]


@dataclass(frozen=True)
class Function:
    """`steps` are pairs of an operation and the places of its operands in the pool."""

    steps: tuple
    num_outputs: int = 2

    def __call__(self, *arrays):
        xp = np if isinstance(arrays[0], np.ndarray) else jnp
        pool, extra = list(arrays[:3]), arrays[3:]
        for operation, places in self.steps:
            pool.append(operation(xp, extra, *(pool[place] for place in places)))
        return tuple(pool[-self.num_outputs :])


def random_function(rng, names, num_steps=6):
    """A function of `num_steps` operations that fit, drawn from the tables below by name."""
    shapes = [np.zeros(LATENTS[name]) for name in "sam"]
    extra, steps = inputs(rng)[3:], []
    while len(steps) < num_steps:
        name = names[rng.integers(len(names))]
        count, make = OPERATIONS[name]
        # the newest are taken more often: deep functions, not broad ones
        odds = np.arange(1.0, len(shapes) + 1)
        places = tuple(rng.choice(len(shapes), size=count, p=odds / odds.sum()))
        operation = make(rng, *(shapes[place] for place in places))
        if operation is None:
            continue
        with np.errstate(all="ignore"):
            found = operation(np, extra, *(shapes[place] for place in places))
        if 0 < found.size <= 24 and found.ndim <= 3:
            shapes.append(found)
            steps.append((operation, places))
    return Function(tuple(steps))


def changes(function, rng, num_points=3):
    """Which entries of each output change with which element of the latents, at some points."""
    found = None
    for _ in range(num_points):
        base = inputs(rng)
        before = function(*base)
        columns = []
        for place in range(4):
            for element in range(base[place].size):
                moved = [np.array(each) for each in base]
                old = moved[place].flat[element]
                moved[place].flat[element] = (old + 1) % 3 if place == 3 else old + rng.normal()
                columns.append([~_same(a, b).ravel() for a, b in zip(before, function(*moved))])
        matrices = [np.stack(each, axis=1) for each in zip(*columns)]
        found = matrices if found is None else [a | b for a, b in zip(found, matrices)]
    return found


def _same(a, b):
    return (a == b) | (np.isnan(a) & np.isnan(b))


def scan(xp, step, start, rows, reverse=False):
    """`jax.lax.scan`, or the loop that it stands for."""
    if xp is jnp:
        return jax.lax.scan(step, start, rows, reverse=reverse)
    length = len(jax.tree.leaves(rows)[0])
    order = range(length)[::-1] if reverse else range(length)
    found, carry = [None] * length, start
    for t in order:
        carry, found[t] = step(carry, jax.tree.map(lambda each: each[t], rows))
    return carry, np.stack(found)


def _put(xp, array, index, new, how):
    if xp is jnp:
        return getattr(array.at[index], how)(new)
    array = np.array(array)
    if how == "set":
        array[index] = new
    else:
        np.add.at(array, index, new)
    return array


def _called(xp, function, *arrays):
    """Within a compiled call under JAX."""
    return jax.jit(function)(*arrays) if xp is jnp else function(*arrays)


def _unary(function):
    return 1, lambda rng, x: lambda xp, extra, x: _called(xp, lambda x: function(xp, x), x)


def _if(condition, operation):
    """A maker that offers the operation where the condition on the operands holds."""
    return lambda rng, *xs: operation if condition(*xs) else None


def _fits(x, y):
    return x.shape == y.shape or x.size == 1 or y.size == 1


def _affine(rng, x):
    a, b = rng.normal(size=2)
    return lambda xp, extra, x: a * x - b


def _product_with_matrix(rng, x):
    if x.ndim == 0:
        return None
    matrix = rng.normal(size=(3, x.shape[-1]))
    return lambda xp, extra, x: xp.einsum("ij,...j->...i", matrix, x)


def _picked(rng, x):
    if x.ndim == 0:
        return None
    index = rng.integers(-x.shape[0], x.shape[0], size=(2, 2))
    return lambda xp, extra, x: x[index]


def _summed(rng, x):
    if x.ndim == 0:
        return None
    axis = int(rng.integers(x.ndim))
    return lambda xp, extra, x: x.sum(axis) * 1.3


def _cumulated(rng, x):
    if x.ndim == 0:
        return None
    axis, back = int(rng.integers(x.ndim)), bool(rng.integers(2))
    turn = lambda xp, x: xp.flip(x, axis) if back else x
    return lambda xp, extra, x: turn(xp, xp.cumsum(turn(xp, x), axis))


def _at_place(xp, extra, x):
    """A slice that starts where the data say."""
    k = extra[3]
    return jax.lax.dynamic_slice_in_dim(x, k, 2) if xp is jnp else x[k : k + 2]


def _put_at_place(xp, extra, x, y):
    k, new = extra[3], y.ravel()[0] * xp.ones((1, *x.shape[1:]))
    if xp is jnp:
        return jax.lax.dynamic_update_slice_in_dim(x, new, k, 0)
    return _put(np, x, slice(k, k + 1), new, "set")


def _long(x):
    return x.ndim > 0 and x.shape[0] >= 3


def _chain(reverse):
    def operation(xp, extra, x):
        step = lambda c, r: (r, 0.7 * c * r + xp.sin(r))
        return scan(xp, step, xp.full(x.shape[1:], 0.3), x, reverse)[1]

    return operation


def _second_order(xp, extra, x, y):
    """The carry is the last two rows, and one number that stays."""

    def step(c, r):
        new = (r, c[0], c[2])
        return new, xp.sin(r) + c[0] * c[1] + c[2]

    start = (xp.full(x.shape[1:], 0.3) + y.ravel()[-1], xp.full(x.shape[1:], 0.3), y.ravel()[0] * xp.ones(()))
    return scan(xp, step, start, x)[1]


def _walk(xp, extra, x):
    last, rows = scan(xp, lambda c, r: (0.5 * c + r, xp.sin(c)), xp.full(x.shape[1:], 0.3), x)
    return xp.concatenate([rows, last[None]])


def _delayed_walk(xp, extra, x):
    """What is carried sums up what was read a step before."""
    step = lambda c, r: ((0.5 * c[0] + c[1], r), 1.1 * c[0])
    return scan(xp, step, (xp.full(x.shape[1:], 0.3), xp.full(x.shape[1:], 0.3)), x)[1]


def _held(xp, extra, x, y):
    step = lambda c, r: (r, xp.sin(y).sum() + c * r)
    return scan(xp, step, xp.full(x.shape[1:], 0.3), x)[1]


def _indexed(xp, extra, x, y):
    """Each step reads the row of `y` that the data say."""
    length = min(x.shape[0], 4)
    step = lambda c, r: (r[0], y[r[1] % y.shape[0]].sum() + c + r[0])
    return scan(xp, step, xp.full(x.shape[1:], 0.3), (x[:length], extra[1][:length]))[1]


def _counted(xp, extra, x, y):
    """Each step reads the row of `y` that a counter says, in a carry free of latents."""
    step = lambda c, r: ((c[0] + 1, r), y[c[0] % y.shape[0]].sum() + c[1] * r)
    return scan(xp, step, (extra[3] * 1, xp.full(x.shape[1:], 0.3)), x)[1]


def _gated(xp, extra, x):
    """A flag of the data decides whether the carry is kept."""
    length = min(x.shape[0], 4)
    step = lambda c, r: (xp.where(r[1], r[0], c), c * 1.2)
    return scan(xp, step, xp.full(x.shape[1:], 0.3), (x[:length], extra[2][:length]))[1]


def _by_latent(xp, extra, x):
    return x[extra[0] % x.shape[0]]


def _by_latent_and_data(xp, extra, x):
    return x[extra[0] % x.shape[0], extra[1][:3] % x.shape[1]]


def _counts(xp, extra, x):
    return _put(xp, xp.ones(x.shape), extra[0] % x.shape[0], 1.7, "add")


_square = lambda x: x.ndim == 2 and x.shape[0] == x.shape[1]
_positive = lambda xp, x: xp.eye(x.shape[0]) * 9 + xp.sin(x) @ xp.sin(x).T

TIGHT = {
    "sin": _unary(lambda xp, x: xp.sin(x)),
    "bounded": _unary(lambda xp, x: x / (1 + x**2)),
    "affine": (1, _affine),
    "add": (2, _if(_fits, lambda xp, extra, x, y: x * 1.3 + y * 0.8)),
    "multiply": (2, _if(_fits, lambda xp, extra, x, y: (x + 2.1) * (y - 1.7))),
    "flat": (1, lambda rng, x: lambda xp, extra, x: x.reshape(-1)),
    "turned": (1, lambda rng, x: lambda xp, extra, x: x.T),
    "reversed": (1, _if(_long, lambda xp, extra, x: x[::-1])),
    "sliced": (1, _if(_long, lambda xp, extra, x: x[1:])),
    "every_second": (1, _if(_long, lambda xp, extra, x: x[::2])),
    "rolled": (1, _if(_long, lambda xp, extra, x: xp.roll(x, 1, 0))),
    "padded": (1, _if(lambda x: x.ndim == 1, lambda xp, extra, x: xp.pad(x, (1, 2), constant_values=0.4))),
    "spread": (1, _if(lambda x: x.ndim < 2, lambda xp, extra, x: xp.broadcast_to(x, (3, *x.shape)))),
    "joined": (2, lambda rng, x, y: lambda xp, extra, x, y: xp.concatenate([x.ravel(), y.ravel()])),
    "stacked": (2, _if(lambda x, y: x.shape == y.shape, lambda xp, extra, x, y: xp.stack([x, y]))),
    "summed": (1, _summed),
    "cumulated": (1, _cumulated),
    "mapped": (1, _product_with_matrix),
    "contracted": (
        2,
        _if(
            lambda x, y: x.ndim == y.ndim == 2 and x.shape[1] == y.shape[0],
            lambda xp, extra, x, y: xp.sin(x) @ xp.cos(y),
        ),
    ),
    "outer": (
        2,
        _if(
            lambda x, y: x.ndim == y.ndim == 1, lambda xp, extra, x, y: xp.einsum("i,j->ij", x + 2.2, y - 1.9)
        ),
    ),
    "picked": (1, _picked),
    "picked_by_data": (1, _if(_long, lambda xp, extra, x: x[extra[1] % x.shape[0]])),
    "at_place": (1, _if(_long, _at_place)),
    "put_at_place": (2, _if(lambda x, y: _long(x), _put_at_place)),
    "set": (
        2,
        _if(
            lambda x, y: _long(x), lambda xp, extra, x, y: _put(xp, x, np.array([2, 0]), y.ravel()[0], "set")
        ),
    ),
    "added_to": (
        2,
        _if(
            lambda x, y: _long(x),
            lambda xp, extra, x, y: _put(xp, x, np.array([1, 1, 0]), y.ravel()[0], "add"),
        ),
    ),
    "chosen": (
        2,
        _if(
            lambda x, y: x.shape == y.shape == (4,), lambda xp, extra, x, y: xp.where(extra[2], xp.sin(x), y)
        ),
    ),
    "chain": (1, _if(_long, _chain(False))),
    "backward_chain": (1, _if(_long, _chain(True))),
    "second_order": (2, _if(lambda x, y: _long(x), _second_order)),
    "walk": (1, _if(_long, _walk)),
    "delayed_walk": (1, _if(_long, _delayed_walk)),
    "held": (2, _if(lambda x, y: _long(x), _held)),
    "indexed": (2, _if(lambda x, y: _long(x) and _long(y), _indexed)),
    "counted": (2, _if(lambda x, y: _long(x) and _long(y), _counted)),
}
LOOSE = {
    "gated": (1, _if(_long, _gated)),
    "sorted": (1, _if(_long, lambda xp, extra, x: xp.sort(x, axis=0))),
    "largest": (1, _if(_long, lambda xp, extra, x: x.max(0))),
    "clipped": (1, lambda rng, x: lambda xp, extra, x: xp.clip(x, -0.5, 0.5)),
    "where": (2, _if(lambda x, y: x.shape == y.shape, lambda xp, extra, x, y: xp.where(x > 0, y, 0.3))),
    "by_latent": (1, _if(_long, _by_latent)),
    "by_latent_and_data": (1, _if(lambda x: _long(x) and x.ndim == 2, _by_latent_and_data)),
    "counts": (1, _if(lambda x: x.ndim == 1 and x.size > 2, _counts)),
    "solved": (1, _if(_square, lambda xp, extra, x: xp.linalg.solve(_positive(xp, x), xp.ones(x.shape)))),
    "factor": (1, _if(_square, lambda xp, extra, x: xp.linalg.cholesky(_positive(xp, x)))),
}
POWERS = {
    "squared": _unary(lambda xp, x: x**2),
    "root": _unary(lambda xp, x: xp.sqrt(x)),
    "inverse": _unary(lambda xp, x: 1.7 / x),
    "real_power": _unary(lambda xp, x: x**1.5),
    "scaled": _unary(lambda xp, x: -2.3 * x),
    "product": (2, _if(_fits, lambda xp, extra, x, y: x * y)),
    "quotient": (2, _if(_fits, lambda xp, extra, x, y: x / y)),
    "total": (2, _if(_fits, lambda xp, extra, x, y: x + y)),
    "kept": (
        1,
        _if(_long, lambda xp, extra, x: scan(xp, lambda c, r: (r, c * r), xp.full(x.shape[1:], 0.3), x)[1]),
    ),
    "summed_up": (1, _if(_long, lambda xp, extra, x: scan(xp, lambda c, r: (c + r, c), x[0], x)[1])),
    "twice_carried": (
        1,
        _if(_long, lambda xp, extra, x: scan(xp, lambda c, r: (1.1 * c, c * c), x[0], x)[1]),
    ),
}
AFFINE = [
    "affine",
    "add",
    "flat",
    "turned",
    "reversed",
    "sliced",
    "every_second",
    "rolled",
    "padded",
    "spread",
    "joined",
    "stacked",
    "summed",
    "cumulated",
    "mapped",
    "picked",
    "picked_by_data",
    "at_place",
    "put_at_place",
    "set",
    "added_to",
    "affine_choice",
    "affine_chain",
    "affine_walk",
]
_AFFINE = {
    "affine_choice": (
        2,
        _if(lambda x, y: x.shape == y.shape == (4,), lambda xp, extra, x, y: xp.where(extra[2], 0.3 * x, y)),
    ),
    "affine_chain": (
        1,
        _if(_long, lambda xp, extra, x: scan(xp, lambda c, r: (r, c + 0.4 * r), 0 * x[0], x)[1]),
    ),
    "affine_walk": (
        2,
        _if(
            lambda x, y: _long(x),
            lambda xp, extra, x, y: scan(
                xp, lambda c, r: (0.5 * c + r - y.sum(), c + 0.4 * r), 0 * x[0], x, True
            )[1],
        ),
    ),
}
OPERATIONS = {**TIGHT, **LOOSE, **POWERS, **_AFFINE}
