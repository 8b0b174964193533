"""Changes of files that the fuzzer makes: bytes, words, and manifests with a digest that fits them."""

import hashlib
import json
import re
from typing import Any

import numpy as np

__all__ = ["forged", "mutated", "mutated_words", "odd_word"]

_ODD = [
    "",
    "nan",
    "-inf",
    "1e308",
    "-1",
    "0",
    "999999999999",
    "0x10",
    "é",
    "\x00",
    "{",
    "}",
    "|",
    "NaN",
    "1,5",
]


def mutated(numbers: np.random.Generator, data: bytes) -> bytes:
    """One to four small changes: a bit, a cut, a copy, a swap, a truncation."""
    for _ in range(numbers.integers(1, 5)):
        size = max(len(data), 1)
        low, high = sorted(numbers.integers(0, size, 2))
        high = min(high, low + 64)
        way = numbers.integers(5)
        if way == 0 and data:
            changed = bytes([data[low] ^ (1 << numbers.integers(8))])
            data = data[:low] + changed + data[low + 1 :]
        elif way == 1:
            data = data[:low] + data[high:]
        elif way == 2:
            data = data[:high] + data[low:high] + data[high:]
        elif way == 3:
            data = data[:low]
        else:
            data = data[:low] + odd_word(numbers).encode() + data[high:]
    return data


def mutated_words(numbers: np.random.Generator, text: str) -> str:
    """Whole words exchanged for odd ones or for each other: mistakes that parse."""
    words = re.split(r"(\s+)", text)
    for _ in range(numbers.integers(1, 4)):
        place = int(numbers.integers(len(words)))
        words[place] = (
            odd_word(numbers) if numbers.random() < 0.5 else words[int(numbers.integers(len(words)))]
        )
    return "".join(words)


def forged(numbers: np.random.Generator, data: bytes) -> bytes:
    """A file of `save` with an odd manifest and a digest that fits it: damage that no checksum finds."""
    stop = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:stop])
    tree = json.loads(header["__metadata__"]["manifest"])
    for _ in range(numbers.integers(1, 4)):
        tree = _changed(numbers, tree)
    header["__metadata__"] |= {"manifest": json.dumps(tree), "sha256": "0" * 64}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    whole = len(text).to_bytes(8, "little") + text + data[stop:]
    digest = hashlib.sha256(whole).hexdigest()
    return whole.replace(b'"sha256":"' + b"0" * 64, b'"sha256":"' + digest.encode(), 1)


def _changed(numbers: np.random.Generator, tree: Any) -> Any:
    """The tree of JSON with one place changed, taken away or repeated."""
    if not isinstance(tree, dict | list) or not tree or numbers.random() < 0.05:
        odd = [
            None,
            True,
            -1,
            10**18,
            1e308,
            [],
            {},
            "",
            "tractable.core.storage.save",
            [tree],
            odd_word(numbers),
        ]
        return odd[int(numbers.integers(len(odd)))]
    places: Any = list(tree) if isinstance(tree, dict) else range(len(tree))
    place = places[int(numbers.integers(len(places)))]
    changed: Any = tree.copy()
    if numbers.random() < 0.1:
        changed.pop(place)
    else:
        changed[place] = _changed(numbers, tree[place])
    return changed


def odd_word(numbers: np.random.Generator) -> str:
    """Something that a parser may not expect."""
    return _ODD[int(numbers.integers(len(_ODD)))]
