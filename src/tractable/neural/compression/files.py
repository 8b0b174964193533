r"""Networks as small files: where the weights are and which values they take, in Huffman codes.

Stream.      The codes of all matrices in one line are gaps between weights that are not zero (one message)
             and the codes of these weights (another), each in the Huffman code of its own frequencies.
             Codebooks, and arrays that are not shared, are kept as they are, to the last bit.
File.        One file of `tractable.save`: checked by its digest, replaced at once or not at all. It holds
             numbers only: `load_compressed` is given a network of the same structure, and fills it.
Cost.        Linear in the weights.
References.  Han, Mao and Dally (2016), "Deep compression"; Huffman (1952).
"""

import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check
from tractable.core.module import HostResult
from tractable.core.storage import StorageError, load, save
from tractable.core.types import Array
from tractable.distributions.huffman import HuffmanCode, huffman
from tractable.neural.compression.weights import Compact, MaskedArray, SharedArray, is_compact

__all__ = ["CompressedSize", "load_compressed", "save_compressed"]


class CompressedSize(HostResult):
    """What a compressed file holds, in bytes and bits.

    `dense_bytes` is what the numbers of the network take as they are, without a header; `file_bytes` is
    the size of the file on disk, with everything.
    """

    num_weights: int
    num_kept: int
    dense_bytes: int
    file_bytes: int
    gap_bits: int
    value_bits: int

    @property
    def ratio(self) -> float:
        """How many times smaller the file is."""
        return self.dense_bytes / self.file_bytes

    @property
    def bits_per_kept_weight(self) -> float:
        """Bits of place and value for each weight that is not zero, tables left aside."""
        return (self.gap_bits + self.value_bits) / self.num_kept


class _Message(HostResult):
    """Symbols in the Huffman code of their own frequencies."""

    symbols: np.ndarray
    counts: np.ndarray
    num_bits: int
    bits: np.ndarray

    @classmethod
    def of(cls, message: np.ndarray) -> "_Message":
        symbols, counts = np.unique(message, return_counts=True)
        bits = _code(symbols, counts).encode(message.tolist()) if len(message) else ""
        packed = np.packbits(np.frombuffer(bits.encode(), np.uint8) - ord("0"))
        return cls(_narrow(symbols), _narrow(counts), len(bits), packed)

    @property
    def decoded(self) -> np.ndarray:
        if not self.num_bits:
            return np.zeros(0, int)
        bits = np.unpackbits(self.bits)[: self.num_bits] + ord("0")
        return np.array(_code(self.symbols, self.counts).decode(bits.tobytes().decode()), int)


class _Packed(HostResult):
    """All numbers of a network: messages for the shared arrays, the others as they are."""

    shared: tuple[tuple[int, ...], ...]  # the shapes of the shared arrays
    books: np.ndarray  # their codebooks, end to end
    lengths: tuple[int, ...]  # of the codebooks
    kept: tuple[int, ...]  # weights that are not zero, in each
    gaps: _Message
    values: _Message
    order: str  # one letter for each array of the network: shared or plain
    plain: tuple[Any, ...]


def save_compressed(path: str | os.PathLike, network: Compact) -> CompressedSize:
    """Write a network with shared weights to a file; the answer says what it takes.

    Masked arrays are refused: their values all differ, share them first (`share_weights`).
    """
    leaves = _arrays(network)
    masked = any(isinstance(leaf, MaskedArray) for leaf in leaves)
    check(not masked, "network", "one with shared weights", "masked weights", "See `share_weights`.")
    shared = [leaf for leaf in leaves if isinstance(leaf, SharedArray)]
    fix = "See `share_weights`."
    check(bool(shared), "network", "one with at least one shared array", type(network).__name__, fix)
    places = [np.flatnonzero(np.asarray(leaf.codes).ravel()) for leaf in shared]
    gaps = np.concatenate([np.diff(place, prepend=-1) - 1 for place in places])
    values = np.concatenate([np.asarray(leaf.codes).ravel()[p] - 1 for leaf, p in zip(shared, places)])
    packed = _Packed(
        tuple(leaf.codes.shape for leaf in shared),
        np.concatenate([np.asarray(leaf.codebook) for leaf in shared]),
        tuple(len(leaf.codebook) for leaf in shared),
        tuple(len(place) for place in places),
        _Message.of(gaps),
        _Message.of(values),
        "".join("s" if isinstance(leaf, SharedArray) else "p" for leaf in leaves),
        tuple(np.asarray(leaf) for leaf in leaves if not isinstance(leaf, SharedArray)),
    )
    save(path, packed)
    dense = sum(np.asarray(leaf.dense if is_compact(leaf) else leaf).nbytes for leaf in leaves)
    weights = sum(leaf.codes.size for leaf in shared)
    return CompressedSize(
        weights, len(values), dense, Path(path).stat().st_size, packed.gaps.num_bits, packed.values.num_bits
    )


def load_compressed(path: str | os.PathLike, like: Any) -> Compact:
    """The network in a file of `save_compressed`, bit for bit; `like` is a network of the same structure,
    whose numbers do not matter."""
    packed = load(path)
    if not isinstance(packed, _Packed):
        raise StorageError(f"`{path}` holds no compressed network but {type(packed).__name__}; use `load`.")
    found = iter(_unpacked(packed))
    plain = like.dense if isinstance(like, Compact) else like
    wanted, rest = eqx.partition(plain, eqx.is_array)
    leaves, tree = jax.tree.flatten(wanted)
    shapes = [(tuple(leaf.shape), str(leaf.dtype)) for leaf in leaves]
    arrays = list(found)
    stored = [(_shape(array), str(_dtype(array))) for array in arrays]
    fix = "Build the network as it was when it was saved."
    check(shapes == stored, "like", f"a network with the arrays {stored}", shapes, fix)
    return Compact(eqx.combine(jax.tree.unflatten(tree, arrays), rest, is_leaf=is_compact))


def _unpacked(packed: _Packed) -> list:
    gaps, values = packed.gaps.decoded, packed.values.decoded
    cut = np.cumsum(packed.kept)[:-1]
    books = np.split(packed.books, np.cumsum(packed.lengths)[:-1])
    shared = []
    for shape, book, gap, value in zip(packed.shared, books, np.split(gaps, cut), np.split(values, cut)):
        codes = np.zeros(int(np.prod(shape)), np.int32)
        codes[np.cumsum(gap + 1) - 1] = value + 1
        shared.append(SharedArray(jnp.asarray(codes.reshape(shape)), jnp.asarray(book)))
    supply, plain = iter(shared), iter(packed.plain)
    return [next(supply) if kind == "s" else jnp.asarray(next(plain)) for kind in packed.order]


def _arrays(network: Compact) -> list:
    leaves = jax.tree.leaves(network.network, is_leaf=is_compact)
    return [leaf for leaf in leaves if is_compact(leaf) or eqx.is_array(leaf)]


def _code(symbols: np.ndarray, counts: np.ndarray) -> HuffmanCode:
    """The same code for the same counts, on every machine."""
    return huffman(counts / counts.sum(dtype=np.int64), tuple(symbols.tolist()))


def _narrow(numbers: np.ndarray) -> np.ndarray:
    """In the fewest bytes each."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _shape(leaf: SharedArray | Array) -> tuple[int, ...]:
    return tuple(leaf.codes.shape if isinstance(leaf, SharedArray) else leaf.shape)


def _dtype(leaf: SharedArray | Array) -> Any:
    return leaf.codebook.dtype if isinstance(leaf, SharedArray) else leaf.dtype
