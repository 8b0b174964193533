"""Huffman codes: exhaustive search, the bounds of Shannon and Kraft, round trips, errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import joint as oracle
from tractable.distributions.huffman import HuffmanCode, huffman, kraft_sum
from tractable.distributions.information import entropy

weights = st.lists(st.integers(1, 30), min_size=2, max_size=5)


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_uniform_powers_of_two_give_a_balanced_tree(bits):
    code = huffman(np.full(2**bits, 2.0**-bits))
    assert set(code.lengths.values()) == {bits}
    assert code.expected_length == bits == pytest.approx(float(entropy(code.probs, base=2)), abs=1e-12)
    assert sorted(code.codebook.values()) == [format(i, f"0{bits}b") for i in range(2**bits)]


def test_dyadic_probabilities_reach_the_entropy():
    code = huffman([0.5, 0.25, 0.125, 0.125], "abcd")
    assert code.codebook == {"a": "0", "b": "10", "c": "110", "d": "111"}
    assert code.expected_length == 1.75 == float(entropy([0.5, 0.25, 0.125, 0.125], base=2))


@given(weights)
def test_no_prefix_code_is_shorter(counts):
    p = np.array(counts) / sum(counts)
    np.testing.assert_allclose(huffman(p).expected_length, oracle.shortest_expected_length(p), rtol=1e-12)


@given(st.lists(st.integers(0, 50), min_size=12, max_size=12).filter(lambda w: sum(map(bool, w)) >= 2))
def test_length_lies_within_one_bit_of_the_entropy(counts):
    p = np.array(counts) / sum(counts)
    code, bits = huffman(p), float(entropy(p, base=2))
    assert bits - 1e-12 <= code.expected_length < bits + 1
    assert kraft_sum(code.lengths.values()) == 1.0
    assert set(code.codebook) == {i for i, count in enumerate(counts) if count}


@given(st.text("abcdef", min_size=2, max_size=60))
def test_messages_come_back(message):
    code = HuffmanCode.from_message(message)
    bits = code.encode(message)
    assert set(bits) <= {"0", "1"}
    assert "".join(code.decode(bits)) == message
    assert len(bits) == pytest.approx(code.expected_length * len(message))


@given(weights)
def test_no_codeword_begins_another(counts):
    words = list(huffman(np.array(counts) / sum(counts)).codebook.values())
    assert not any(a != b and b.startswith(a) for a in words for b in words)


def test_likelier_symbols_have_codewords_that_are_not_longer():
    p = np.array([0.05, 0.3, 0.1, 0.25, 0.3])
    lengths = huffman(p).lengths
    assert all(lengths[i] <= lengths[j] for i in range(5) for j in range(5) if p[i] > p[j])


def test_ties_are_broken_in_one_way():
    code = huffman([0.2] * 5, "abcde")
    assert code.codebook == huffman([0.2] * 5, "abcde").codebook
    assert code.codebook == {"a": "110", "b": "111", "c": "00", "d": "01", "e": "10"}
    assert code.tree == (("c", "d"), ("e", ("a", "b")))  # left edge 0, right edge 1


def test_a_single_symbol_takes_one_bit_each():
    code = huffman([1.0], ["only"])
    assert code.codebook == {"only": "0"}
    assert code.decode(code.encode(["only"] * 3)) == ["only"] * 3
    assert code.expected_length == 1.0
    with pytest.raises(
        ValueError, match=r"`bits` must be a string of 0 for a single symbol; got '1' at position 1"
    ):
        code.decode("01")


def test_symbols_of_probability_zero_have_no_codeword():
    code = huffman([0.5, 0.0, 0.5], "abc")
    assert code.codebook == {"a": "0", "c": "1"}
    with pytest.raises(ValueError, match=r"`message` .* got 'b' at position 1\. It has probability zero"):
        code.encode("ab")


def test_unknown_symbols_and_broken_bits_are_refused():
    code = huffman([0.5, 0.25, 0.25], "abc")
    with pytest.raises(
        ValueError, match=r"`message` must be a sequence of the symbols .* got 'z' at position 2\.$"
    ):
        code.encode("abz")
    with pytest.raises(ValueError, match=r"`bits` must be whole codewords; got an end inside a codeword"):
        code.decode("01")
    with pytest.raises(ValueError, match=r"`bits` must be a string of 0 and 1; got '2' at position 1"):
        code.decode("02")
    with pytest.raises(ValueError, match=r"`symbols` must be 2 distinct symbols"):
        huffman([0.5, 0.5], "aa")
    with pytest.raises(ValueError, match=r"`probs` must be probabilities that sum to 1"):
        huffman([0.5, 0.6])
    with pytest.raises(ValueError, match=r"`probs` must be a vector; got shape \(2, 2\)"):
        huffman(np.full((2, 2), 0.25))
    with pytest.raises(ValueError, match=r"`message` must be a sequence with at least one symbol"):
        HuffmanCode.from_message("")


def test_kraft_sum_tells_possible_from_impossible_lengths():
    assert kraft_sum([1, 2, 3, 3]) == 1.0
    assert kraft_sum([1, 1, 2]) > 1
    assert kraft_sum([2, 2]) == 0.5


def test_a_deep_tree_does_not_exhaust_the_stack():
    p = 2.0 ** -np.arange(1.0, 1000.0)
    p[-1] *= 2
    code = huffman(p / p.sum())
    assert max(code.lengths.values()) == 998
    np.testing.assert_allclose(code.expected_length, 2.0, atol=1e-9)
