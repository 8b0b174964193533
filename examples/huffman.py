"""Compress a sentence: the code, its length beside the entropy, and the price of the code of another text."""

import numpy as np

from tractable.distributions.huffman import HuffmanCode, kraft_sum
from tractable.distributions.information import cross_entropy, entropy

TEXT = "the more often a letter occurs the shorter its code should be so that messages are short on average"


def main() -> None:
    code = HuffmanCode.from_message(TEXT)
    bits = code.encode(TEXT)
    limit = float(entropy(code.probs, base=2))
    for symbol, word in sorted(code.codebook.items(), key=lambda entry: (len(entry[1]), entry[1]))[:5]:
        print(f"{symbol!r:5} {word}")
    print(f"entropy {limit:.4f}, Huffman {code.expected_length:.4f}, fixed length 5 bits per letter")
    print(f"{len(TEXT)} letters in {len(bits)} bits")

    assert "".join(code.decode(bits)) == TEXT
    assert limit <= code.expected_length < limit + 1
    assert kraft_sum(code.lengths.values()) == 1.0
    assert len(bits) < 5 * len(TEXT)

    # Letters of another source in the ideal code for this text: the cross-entropy, longer by the divergence.
    other = np.roll(code.probs, 3)
    total, wasted = (
        cross_entropy(other, code.probs, base=2),
        cross_entropy(other, code.probs, base=2) - entropy(other, base=2),
    )
    print(f"another source in this code: {total:.4f} bits per letter, {wasted:.4f} of them wasted")
    assert wasted > 0


if __name__ == "__main__":
    main()
