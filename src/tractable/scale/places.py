r"""Places: where the work of a pass over partitions is done, a Dask cluster or the threads of this process.

Pass.        $\bigoplus_p f(\text{block}_p)$: `leaf` of each block where the block is, joined by a tree of
             fixed shape, `fan_in` parts at a time in the order of the partitions. So the answer depends
             neither on the number of workers nor on who is done first, not by a bit.
Broadcast.   What a pass needs is sent once to each worker: its arrays every time, its structure (classes,
             options, functions) only where that has changed, so that a worker compiles once.
Loss.        Dask computes again what a lost worker held; what was sent is the answer of a task too, which
             the scheduler can give again (data that a client scatters cannot be, and a worker that dies
             while it is sent leaves the client waiting for ever). Where that fails, as when a task was tried
             on too many workers that died, the pass is repeated, at most `RETRIES` times.
Cost.        For $P$ partitions $P + P/(f - 1)$ tasks of about a millisecond of the scheduler each.
"""

import functools
import math
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from tractable.core.checks import check
from tractable.core.interrupts import in_threads
from tractable.scale.partitions import required

__all__ = ["RETRIES", "Cluster", "Place", "Threads", "place_of"]

RETRIES = 5  # of a pass that failed because workers went

Leaf = Callable[[Callable, Any], Any]
Join = Callable[[list], Any]


class Place:
    """Where tasks run; `words` says so, and `lost` counts passes that were made again."""

    words: str
    lost: int = 0

    def hold(self, blocks: list) -> list:
        """The blocks, kept where they will be used."""
        return blocks

    def reduce(self, leaf: Leaf, function: Callable, blocks: list, join: Join, fan_in: int) -> Any:
        """`leaf(function, block)` of all blocks, joined in their order."""
        raise NotImplementedError

    def map(self, function: Callable, items: Sequence, shared: Any = None) -> list:
        """`function(item, shared)` of each item, in order."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what was opened here."""


class Threads(Place):
    """The threads of this process: blocks are read when they are used, a few at a time."""

    words = "the threads of this process"

    def reduce(self, leaf, function, blocks, join, fan_in):
        dask = required("dask")
        first = dask.delayed(functools.partial(leaf, function), pure=False)
        root = _tree([first(block) for block in blocks], dask.delayed(join, pure=False), fan_in)
        return dask.compute(root, scheduler="threads")[0]

    def map(self, function, items, shared=None):
        return list(in_threads(lambda item: function(item, shared), items))


class Cluster(Place):
    """The workers of a Dask cluster, by a client of it."""

    def __init__(self, client: Any, owned: bool = False):
        self.client, self.owned = client, owned
        workers = client.scheduler_info(n_workers=-1)["workers"]
        self.words = f"{len(workers)} Dask workers at {client.scheduler.address}"
        self._structure: _Structure | None = None
        self._sent: Any = None

    def hold(self, blocks):
        """The blocks in the memory of the workers; what a lost one held is read again."""
        return self.client.compute(blocks, sync=False)

    def reduce(self, leaf, function, blocks, join, fan_in):
        return self._insist(lambda: self._pass(leaf, function, blocks, join, fan_in))

    def map(self, function, items, shared=None):
        def work() -> list:
            sent = self._send(shared)
            futures = self.client.map(function, list(items), shared=sent, pure=False)
            return self._answer(futures)

        return self._insist(work)

    def close(self):
        if self.owned:
            self.client.close()

    def _pass(self, leaf: Leaf, function: Callable, blocks: list, join: Join, fan_in: int) -> Any:
        structure, arrays = _taken_apart(function)
        if self._structure is None or not structure.is_same(self._structure):
            self._sent = self._send(structure)
            self._structure = structure
        numbers = self._send(arrays)
        work = functools.partial(_leaf, leaf)
        if blocks and hasattr(blocks[0], "dask"):  # not held: read again in every pass
            first = required("dask").delayed(work, pure=False)
            level = [first(block, structure=self._sent, numbers=numbers) for block in blocks]
            root = _tree(level, required("dask").delayed(join, pure=False), fan_in)
            return self._answer(self.client.compute(root, sync=False))
        level = self.client.map(work, blocks, structure=self._sent, numbers=numbers, pure=False)
        joined = functools.partial(self.client.submit, join, pure=False)
        return self._answer(_tree(level, joined, fan_in))

    def _send(self, value: Any) -> Any:
        """A value that workers hand to each other, each of them once."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # parameters may be large
            return self.client.submit(_Held(value), pure=False)

    def _answer(self, futures: Any) -> Any:
        try:
            return self.client.gather(futures)
        except BaseException:
            self.client.cancel(futures)
            raise

    def _insist(self, work: Callable[[], Any]) -> Any:
        """`work()`, again where it failed because workers went, not because of what it computes."""
        for attempt in range(RETRIES + 1):
            try:
                return work()
            except _losses() as error:
                if attempt == RETRIES:
                    said = f"The cluster lost its workers in {RETRIES + 1} attempts at one pass."
                    raise RuntimeError(f"{said} Look at their memory and at their logs.") from error
                self.lost += 1
                self._structure = self._sent = None
                self.client.wait_for_workers(1)
        raise AssertionError("the last attempt returns or raises")


def place_of(client: Any = None) -> Place:
    """A client, the address of a scheduler, a cluster; without one the current client, else threads."""
    if client is None:
        loaded = sys.modules.get("distributed")
        try:
            return Threads() if loaded is None else Cluster(loaded.default_client())
        except ValueError:  # there is none
            return Threads()
    distributed = required("distributed")
    if isinstance(client, distributed.Client):
        return Cluster(client)
    fits = isinstance(client, str) or hasattr(client, "scheduler_address")
    must = "a client, a cluster or the address of a scheduler"
    check(fits, "client", must, type(client).__name__, error=TypeError)
    return Cluster(distributed.Client(client, set_as_default=False), owned=True)


def _tree(level: list, join: Callable[[list], Any], fan_in: int) -> Any:
    """The root over a level of parts, `fan_in` of them at a time."""
    first = True
    while first or len(level) > 1:  # one part is joined too: a tree has one kind of root
        level = [join(level[i : i + fan_in]) for i in range(0, len(level), fan_in)]
        first = False
    return level[0]


def _leaf(leaf: Leaf, block: Any, *, structure: "_Structure", numbers: tuple) -> Any:
    return leaf(structure.whole(numbers), block)


class _Held:
    """A task that gives what it holds; Dask does not look into it."""

    def __init__(self, value: Any):
        self.value = value

    def __call__(self) -> Any:
        return self.value


class _Gap(NamedTuple):
    """Stands in a structure where an array belongs."""

    place: int


class _Structure(NamedTuple):
    """A function without its arrays: the object whose method it is, if it is one, and its name."""

    owner: Any
    method: str | None

    def whole(self, arrays: tuple) -> Callable:
        owner = jax.tree.map(
            lambda leaf: arrays[leaf.place] if isinstance(leaf, _Gap) else leaf, self.owner, is_leaf=_is_gap
        )
        return owner if self.method is None else getattr(owner, self.method)

    def is_same(self, other: "_Structure") -> bool:
        return self.method == other.method and bool(eqx.tree_equal(self.owner, other.owner))


def _taken_apart(function: Callable) -> tuple[_Structure, tuple]:
    """What stays from pass to pass, and the arrays. A bound method travels by its name: functions of modules
    would be sent as code, and compiled anew each time."""
    owner, method = getattr(function, "__self__", None), getattr(function, "__name__", None)
    if owner is None or isinstance(function, functools.partial):
        owner, method = function, None
    leaves, tree = jax.tree.flatten(owner)
    is_array = [isinstance(leaf, jax.Array | np.ndarray | np.generic) for leaf in leaves]
    held = [_Gap(i) if found else leaf for i, (leaf, found) in enumerate(zip(leaves, is_array))]
    arrays = tuple(np.asarray(leaf) if found else None for leaf, found in zip(leaves, is_array))
    return _Structure(jax.tree.unflatten(tree, held), method), arrays


def _is_gap(leaf: Any) -> bool:
    return isinstance(leaf, _Gap)


def _losses() -> tuple[type[BaseException], ...]:
    """What a cluster raises when workers go."""
    client, scheduler = required("distributed.client"), required("distributed.scheduler")
    names = ("FutureCancelledError", "CancelledError", "FuturesCancelledError")
    found = {getattr(client, name) for name in names if hasattr(client, name)}
    return (*found, scheduler.KilledWorker, required("distributed.comm").CommClosedError)


def height(num_partitions: int, fan_in: int) -> int:
    """The number of levels of joins above the partitions.

    >>> height(1000, 16)
    3
    """
    return max(1, math.ceil(math.log(max(num_partitions, 2)) / math.log(fan_in) - 1e-12))
