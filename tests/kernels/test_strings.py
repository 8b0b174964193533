"""String kernels against the listing of all words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.covariances import subsequence_kernel
from tractable.core.storage import load, save
from tractable.kernels.checks import is_psd
from tractable.kernels.strings import Spectrum, Subsequence

TEXTS = ["banana", "bandana", "ananas", "cat", "abba", "nab"]
words = st.text(alphabet="ab c", max_size=6)


def test_spectrum_counts_shared_words():
    assert Spectrum(2)("banana", "bandana") == 1 * 1 + 2 * 2 + 2 * 1
    assert Spectrum(3)("banana", "ananas") == 2 * 2 + 1 * 1  # ana twice in both, nan once
    assert Spectrum(4)("cat", "banana") == 0
    assert Spectrum(1)(("to", "be", "or"), ["or", "not", "to", "be"]) == 3  # words as letters


def test_subsequence_worked_numbers():
    """cat and car share c-a of length 2: decay^4; cat with itself: 2 decay^4 + decay^6."""
    kernel = Subsequence(2, decay=0.5)
    np.testing.assert_allclose(kernel("cat", "car"), 0.5**4, rtol=1e-14)
    np.testing.assert_allclose(kernel("cat", "cat"), 2 * 0.5**4 + 0.5**6, rtol=1e-14)
    normalised = Subsequence(2, decay=0.5, normalised=True)
    np.testing.assert_allclose(normalised("cat", "car"), 1 / (2 + 0.5**2), rtol=1e-14)


@given(words, words, st.sampled_from([1, 2, 3]), st.sampled_from([0.3, 1.0]))
def test_subsequences_are_those_of_the_listing(s, t, length, decay):
    want = subsequence_kernel(s, t, length, decay)
    np.testing.assert_allclose(Subsequence(length, decay)(s, t), want, rtol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [Spectrum(2), Spectrum(1, normalised=True), Subsequence(2, 0.7), Subsequence(2, normalised=True)],
    ids=str,
)
def test_laws_of_string_kernels(kernel, tmp_path):
    gram = kernel.gram(TEXTS)
    assert is_psd(gram)
    np.testing.assert_allclose(kernel.gram(TEXTS, TEXTS[1:4]), gram[:, 1:4], rtol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(TEXTS), np.diag(gram), rtol=1e-12)
    np.testing.assert_allclose([[kernel(s, t) for t in TEXTS] for s in TEXTS], gram, rtol=1e-12)
    save(tmp_path / "k.safetensors", kernel)
    assert load(tmp_path / "k.safetensors") == kernel


def test_wrong_strings_are_named():
    with pytest.raises(ValueError, match="`texts` must be a list of strings; got 'abc'"):
        Spectrum(2).gram("abc")
    with pytest.raises(ValueError, match=r"`texts` must be strings with at least one piece.*'a' at index 1"):
        Spectrum(2, normalised=True).gram(["abc", "a"])
    with pytest.raises(ValueError, match="`decay` must be in"):
        Subsequence(2, decay=1.5)
    with pytest.raises(ValueError, match="`length` must be a whole number of at least 1"):
        Spectrum(0)
