r"""Huffman codes: the prefix code with the shortest expected length.

Code.        The two lightest subtrees are joined until one is left; a left edge is 0, a right edge is 1.
Bounds.      $H \le E[\mathrm{length}] < H + 1$ in bits, and $\sum_s 2^{-\ell(s)} = 1$ (Kraft), for two or
             more symbols.
Policy.      Ties go to the subtree made first, symbols in their order before joined subtrees: one answer on
             every machine. A symbol of probability zero gets no codeword. A single possible symbol gets the
             codeword `0`, so that the length of a message can be read: the one case with $E[\mathrm{length}]
             = H + 1$.
Cost.        $O(K \log K)$ to build, linear in the message to encode and decode.
References.  Huffman (1952); Cover and Thomas (2006) section 5.6.
"""

import heapq
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.core.module import Module, field
from tractable.core.types import Float, Int
from tractable.distributions.information import Numbers, as_probabilities

__all__ = ["HuffmanCode", "huffman", "kraft_sum"]


class HuffmanCode(Module):
    """A prefix code for `symbols` with probabilities `probs`.

    `joins` holds the tree: row $j$ names the left and the right child of node $K + j$, the first
    $K$ nodes being the symbols.
    """

    probs: Float[np.ndarray, " symbols"]
    joins: Int[np.ndarray, "joins 2"]
    symbols: tuple[Hashable, ...] = field(static=True)

    @classmethod
    def from_message(cls, message: Iterable[Hashable]) -> "HuffmanCode":
        """The code for the frequencies of the symbols in a message, in order of appearance."""
        counts = Counter(message)
        check(len(counts) > 0, "message", "a sequence with at least one symbol", "none")
        return huffman(np.array(list(counts.values())) / counts.total(), tuple(counts))

    @property
    def codebook(self) -> dict[Hashable, str]:
        """The codeword of each symbol that can occur, a string of 0 and 1."""
        return {self.symbols[leaf]: word for leaf, word in self._words().items()}

    @property
    def tree(self) -> Any:
        """The tree as nested pairs (left, right), a symbol at each leaf."""
        nodes: list[Any] = list(self.symbols)
        for left, right in self.joins.tolist():
            nodes.append((nodes[left], nodes[right]))
        return nodes[self._root]

    @property
    def lengths(self) -> dict[Hashable, int]:
        """The number of bits of each codeword."""
        return {symbol: len(word) for symbol, word in self.codebook.items()}

    @property
    def expected_length(self) -> float:
        r"""$\sum_s p(s)\,\ell(s)$ in bits."""
        return float(sum(self.probs[leaf] * len(word) for leaf, word in self._words().items()))

    def encode(self, message: Iterable[Hashable]) -> str:
        """The codewords of the symbols of a message, one after the other."""
        book = self.codebook
        words = []
        for position, symbol in enumerate(message):
            if symbol not in book:
                got = f"{symbol!r} at position {position}"
                fix = "It has probability zero." if symbol in self.symbols else ""
                check(False, "message", f"a sequence of the symbols {tuple(book)}", got, fix)
            words.append(book[symbol])
        return "".join(words)

    def decode(self, bits: str) -> list[Hashable]:
        """The symbols of a string of 0 and 1; an error where it is not a sequence of codewords."""
        joins, root, num_symbols = self.joins.tolist(), self._root, len(self.symbols)
        allowed, must = ("01", "a string of 0 and 1") if joins else ("0", "a string of 0 for a single symbol")
        wrong = next((i for i, bit in enumerate(bits) if bit not in allowed), None)
        if wrong is not None:
            check(False, "bits", must, f"{bits[wrong]!r} at position {wrong}")
        node, symbols = root, []
        for bit in bits:
            node = joins[node - num_symbols][bit == "1"] if joins else root
            if node < num_symbols:
                symbols.append(self.symbols[node])
                node = root
        check(node == root, "bits", "whole codewords", "an end inside a codeword", "The message was cut off.")
        return symbols

    @property
    def _root(self) -> int:
        return len(self.symbols) + len(self.joins) - 1 if len(self.joins) else int(self.probs.argmax())

    def _words(self) -> dict[int, str]:
        """The codeword of each symbol by its position, from the root down."""
        words = {self._root: "" if len(self.joins) else "0"}
        for j in range(len(self.joins) - 1, -1, -1):
            word = words.pop(len(self.symbols) + j)
            left, right = self.joins[j].tolist()
            words[left], words[right] = word + "0", word + "1"
        return dict(sorted(words.items()))


def huffman(probs: Numbers, symbols: Sequence[Hashable] | None = None) -> HuffmanCode:
    """The Huffman code of symbols (by default 0, 1, 2, ...) with these probabilities.

    >>> huffman([0.5, 0.25, 0.25], "abc").codebook
    {'a': '0', 'b': '10', 'c': '11'}
    """
    p = np.asarray(as_probabilities("probs", probs), float)
    check(p.ndim == 1, "probs", "a vector", f"shape {p.shape}")
    names = tuple(range(len(p)) if symbols is None else symbols)
    fits = len(names) == len(p) and len(set(names)) == len(names)
    check(fits, "symbols", f"{len(p)} distinct symbols, one per probability", names)
    heap = [(weight, leaf) for leaf, weight in enumerate(p.tolist()) if weight > 0]
    heapq.heapify(heap)
    joins = []
    while len(heap) > 1:
        light, left = heapq.heappop(heap)
        heavy, right = heapq.heappop(heap)
        heapq.heappush(heap, (light + heavy, len(p) + len(joins)))
        joins.append((left, right))
    return HuffmanCode(p, np.array(joins, int).reshape(-1, 2), names)


def kraft_sum(lengths: Iterable[int]) -> float:
    r"""$\sum_s 2^{-\ell(s)}$: a prefix code with these lengths exists if and only if it is at most 1.

    >>> kraft_sum([1, 2, 2])
    1.0
    """
    return float(sum(2.0**-length for length in lengths))
