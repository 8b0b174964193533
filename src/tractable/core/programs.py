r"""`program`: `jit` for functions of pytrees, whose compiled code goes when what it was compiled for goes.

Rule.        Arrays in the arguments are traced; everything else (functions, options, sizes) names the
             program, and comes back from it as it is.
Memory.      `jax.jit` keeps each static argument, and the code compiled for it, as long as the process lives:
             a hundred densities written on the spot fill the table of memory mappings. Here the functions
             among the arguments are held weakly, so that a program dies with its function, and of the others
             only the `MOST` that were used last are kept.
Ctrl-C.      The first call of a program, and any after one that took long, is made on a thread of its own
             (`core.interrupts`): neither the compiler nor a loop of an hour keeps the keyboard waiting.
Light.       Many small operations on long rows (particles) run as fast when the compiler takes a third of its
             seconds: functions marked `light` are compiled so, but for what the user's `XLA_FLAGS` settle.
Cost.        A call flattens its arguments and looks one key up, about ten microseconds.
"""

import atexit
import functools
import os
import threading
import time
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import has_values
from tractable.core.interrupts import heard
from tractable.core.user_code import TRACED, traced_words

__all__ = ["MOST", "as_data", "light", "num_programs", "program"]

MOST = 512  # programs: some ten mappings and half a megabyte each

_LIGHT = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}
_UNKNOWN = "No such compile option"
_LONG = 0.1  # seconds of a call: beyond, the next one is made on a thread of its own

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


def program(function: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
    """`function`, compiled once for each structure of its arguments.

    >>> import jax.numpy as jnp
    >>> @program
    ... def scaled(function, x, power):
    ...     return function(x) ** power, power
    >>> scaled(jnp.sum, jnp.arange(3.0), 2)
    (Array(9., dtype=float64), 2)
    """

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, options))
        arrays, fixed = _divide(leaves)
        code = _program(function, tree, fixed)
        return _with_functions(code(arrays).value, leaves)

    return call


def light(function: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
    """Marks what `program` shall compile with less effort; below `@program`."""
    function.compiles_lightly = True  # pyright: ignore[reportFunctionMemberAccess]
    return function


def as_data(args: Any) -> Any:
    """The further arguments of a user's function, with numbers as arrays: another number is no other program.

    What belongs to the program (a size, an option, a model) is held by the function or by a module.

    >>> as_data((2.0, {"rows": [1, 2]}))[0].shape
    ()
    """

    def traced(leaf: Any) -> Any:
        return jnp.asarray(leaf) if eqx.is_array_like(leaf) else leaf

    return jax.tree.map(traced, args, is_leaf=lambda leaf: isinstance(leaf, eqx.Module))


def num_programs() -> int:
    """How many programs are kept now."""
    with _lock:
        _forget_the_dead()
        return len(_kept)


_kept: "OrderedDict[tuple, Callable]" = OrderedDict()
_dead: "deque[_Watched]" = deque()  # functions that are gone; the next call forgets their programs
_lock = threading.Lock()
atexit.register(_kept.clear)  # before the interpreter takes apart what the references call in the end


def _program(function: Callable, tree: Any, fixed: tuple) -> Callable:
    key = (function, tree, fixed)
    with _lock:
        code = _kept.get(key)
        if code is not None:
            _kept.move_to_end(key)
            return code
        _forget_the_dead()
    fixed = tuple(_watched(entry) for entry in fixed)
    key = (function, tree, fixed)
    for entry in fixed:
        if isinstance(entry, _Watched):
            entry.key = key
    code = _compiled(function, tree, fixed)
    with _lock:
        _kept[key] = code
        while len(_kept) > MOST:
            _kept.popitem(last=False)
    return code


def _forget_the_dead() -> None:
    while _dead:
        _kept.pop(_dead.popleft().key, None)


def _compiled(function: Callable, tree: Any, fixed: tuple) -> Callable:
    """The program; it runs as Python only while someone calls it, who holds the functions that it needs."""

    def run(arrays: list) -> _Answered:
        supply = iter(arrays)
        leaves = [next(supply) if entry is _ARRAY else _value(entry) for entry in fixed]
        args, options = jax.tree.unflatten(tree, leaves)
        try:
            return _Answered(_without_functions(function(*args, **options), leaves))
        except TRACED as error:
            said = traced_words("function", error)  # of the user, if its code is at fault
            if said is None:
                raise
            raise TypeError(said) from error

    run.__name__, run.__qualname__ = function.__name__, function.__qualname__
    return _Code(run, _light_options() if hasattr(function, "compiles_lightly") else {})


def _light_options() -> dict[str, Any]:
    settled = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in _LIGHT.items() if name not in settled}


class _Code:
    """What was compiled, what larger programs take in its place, and whether the next call may take long."""

    __slots__ = ("compiled", "is_long", "within")

    def __init__(self, run: Callable, options: dict[str, Any]):
        self.within, self.is_long = jax.jit(run), True
        self.compiled = jax.jit(run, compiler_options=options) if options else self.within

    def __call__(self, arrays: list) -> "_Answered":
        begun = time.monotonic()
        if self.compiled is not self.within and not _is_concrete(arrays):
            return self.within(arrays)  # options are for whole programs
        if self.is_long and _is_concrete(arrays):
            # traced here, where the settings of this thread hold; compiled and run elsewhere
            try:
                answer, seconds = heard(_finish, self.compiled.lower(arrays), arrays)
            except jax.errors.JaxRuntimeError as error:
                if _UNKNOWN not in str(error) or self.compiled is self.within:
                    raise
                self.compiled = self.within  # another version of the compiler, without these options
                return self(arrays)
        else:
            answer = self.compiled(arrays)
            seconds = time.monotonic() - begun
        self.is_long = seconds > _LONG
        return answer


def _finish(lowered: Any, arrays: list) -> tuple[Any, float]:
    """The answer, and how long it took without the compiler."""
    ready = lowered.compile()
    begun = time.monotonic()
    return jax.block_until_ready(ready(arrays)), time.monotonic() - begun


def _is_concrete(arrays: list) -> bool:
    """Whether a call computes now, rather than becoming part of a larger program."""
    # an array made here is traced where everything is
    return has_values((*arrays, jnp.zeros(()))) and not jax.config.jax_disable_jit  # pyright: ignore[reportAttributeAccessIssue]


# --- what names a program ------------------------------------------------------------------------------

_ARRAY = "an array"  # stands where the program takes one


class _Watched(weakref.ref):
    """A weak reference that knows which program to forget with its function."""

    __slots__ = ("key",)
    key: tuple


def _divide(leaves: list) -> tuple[list, tuple]:
    """The arrays, and what stays: functions weakly, other values with their types (`1` is not `True`)."""
    arrays, fixed = [], []
    for leaf in leaves:
        if isinstance(leaf, jax.Array | np.ndarray | np.generic):
            arrays.append(leaf)
            fixed.append(_ARRAY)
        elif callable(leaf) and not isinstance(leaf, type):
            fixed.append(_weak(leaf))
        else:
            fixed.append((type(leaf), leaf))
    return arrays, tuple(fixed)


def _weak(function: Callable) -> Any:
    try:
        bound = isinstance(function, types.MethodType)
        return weakref.WeakMethod(function) if bound else weakref.ref(function)
    except TypeError:  # of a kind that cannot be watched
        return (type(function), function)


def _watched(entry: Any) -> Any:
    """A weak reference that forgets its program in the end; bound methods are left to `MOST`."""
    # a function of C takes the note: one of Python could swallow a Ctrl-C, wherever the function dies
    return _Watched(entry(), _dead.append) if type(entry) is weakref.ref else entry


def _value(entry: Any) -> Any:
    return entry() if isinstance(entry, weakref.ref) else entry[1]


# --- what a program answers ----------------------------------------------------------------------------


class _Place:
    """Stands in an answer for a function that was given: a program that held it would keep it alive."""

    __slots__ = ("index",)

    def __init__(self, index: int):
        self.index = index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Place) and other.index == self.index

    def __hash__(self) -> int:
        return hash(("place", self.index))


def _without_functions(answer: Any, leaves: list) -> Any:
    given = {id(leaf): i for i, leaf in enumerate(leaves) if callable(leaf)}
    return jax.tree.map(lambda leaf: _Place(given[id(leaf)]) if id(leaf) in given else leaf, answer)


def _with_functions(answer: Any, leaves: list) -> Any:
    return jax.tree.map(lambda leaf: leaves[leaf.index] if isinstance(leaf, _Place) else leaf, answer)


@jax.tree_util.register_pytree_node_class
class _Answered:
    """Any pytree, whose leaves that are no arrays belong to its structure, as `jit` wants it."""

    def __init__(self, value: Any):
        self.value = value

    def tree_flatten(self) -> tuple[list, tuple]:
        leaves, tree = jax.tree.flatten(self.value)
        is_array = [isinstance(leaf, jax.Array | np.ndarray | np.generic) for leaf in leaves]
        arrays = [leaf for leaf, traced in zip(leaves, is_array) if traced]
        rest = tuple(None if traced else leaf for leaf, traced in zip(leaves, is_array))
        return arrays, (tree, tuple(is_array), rest)

    @classmethod
    def tree_unflatten(cls, structure: tuple, arrays: Any) -> "_Answered":
        tree, is_array, rest = structure
        supply = iter(arrays)
        leaves = [next(supply) if traced else leaf for traced, leaf in zip(is_array, rest)]
        return cls(jax.tree.unflatten(tree, leaves))
