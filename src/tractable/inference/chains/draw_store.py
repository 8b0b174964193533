"""Where draws are kept while a run makes them: in memory, or in files of fixed length on disk.

Files.       One NumPy file per array, `draws.tau.npy` and the like, of shape `(chains, draws, ...)`, written
             in place: what is on disk after a crash is whole up to the last block that was counted.
Cost.        In memory, the draws twice while they are joined; on disk, one block.
"""

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tractable.core.checks import check

__all__ = ["DiskStore", "MemoryStore"]


class MemoryStore:
    """Blocks in a list."""

    path: str | None = None

    def __init__(self, first: Any = None):
        self.parts = [] if first is None else [first]

    def append(self, block: Any) -> None:
        """Keep a pytree of arrays `(chains, steps, ...)`."""
        self.parts.append(block)

    def joined(self) -> Any:
        """All blocks as one, which replaces them."""
        if len(self.parts) > 1:
            self.parts = [jax.tree.map(lambda *leaves: np.concatenate(leaves, 1), *self.parts)]
        return self.parts[0]


class DiskStore:
    """Blocks in files below a folder; `total` draws per chain in all, of which `done` are there already."""

    def __init__(self, path: str | os.PathLike, total: int, done: int = 0):
        self.path, self.total, self.done = str(path), total, done
        self.files: list[np.memmap] = []
        self.structure: Any = None
        Path(path).mkdir(parents=True, exist_ok=True)

    def append(self, block: Any) -> None:
        """Write a pytree of arrays `(chains, steps, ...)` behind what is there."""
        leaves, structure = jax.tree.flatten(block)
        if not self.files:
            self.structure = structure
            self.files = [self._file(name, leaf) for name, leaf in zip(leaf_names(block), leaves)]
        steps = leaves[0].shape[1]
        for file, leaf in zip(self.files, leaves):
            file[:, self.done : self.done + steps] = leaf
            file.flush()
        self.done += steps

    def joined(self) -> Any:
        """What has been written, as memory maps for reading."""
        maps = [np.load(str(file.filename), mmap_mode="r")[:, : self.done] for file in self.files]
        return jax.tree.unflatten(self.structure, maps)

    def _file(self, name: str, leaf: np.ndarray) -> np.memmap:
        """A file with room for all draws; one that holds earlier draws keeps them."""
        path = Path(self.path) / f"{name}.npy"
        shape = (leaf.shape[0], self.total, *leaf.shape[2:])
        if self.done == 0:
            return np.lib.format.open_memmap(path, "w+", leaf.dtype, shape)
        check(
            path.exists(), "stream", "the folder of the run that goes on", f"{self.path} without {path.name}"
        )
        old = np.load(path, mmap_mode="r+")
        if old.shape == shape:
            return old
        longer = path.with_suffix(".longer")
        made = np.lib.format.open_memmap(longer, "w+", leaf.dtype, shape)
        made[:, : self.done] = old[:, : self.done]
        made.flush()
        os.replace(longer, path)
        return np.load(path, mmap_mode="r+")


def leaf_names(tree: Any) -> list[str]:
    """A dotted name for each leaf, fit for a file."""
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    return [
        ".".join(str(getattr(k, "name", getattr(k, "key", getattr(k, "idx", k)))) for k in path)
        for path in paths
    ]
