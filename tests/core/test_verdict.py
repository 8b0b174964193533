"""The one form of a judgement."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.core import Module, Verdict, load, save


def test_a_verdict_is_its_sentence_its_truth_and_its_numbers():
    good = Verdict(jnp.asarray(True), "Fine.", {"gap": jnp.asarray(1e-9), "at": np.array([1, 2])})
    assert good
    assert not Verdict(False, "Broken.")
    assert repr(good) == "Fine."
    assert good.numbers == {"gap": 1e-9, "at": (1, 2)}
    assert Verdict(False, "Broken.").numbers == {}


def test_a_verdict_is_a_constant_of_a_program():
    verdict = Verdict(True, "Fine.", {"gap": np.float64(0.5)})
    assert jax.tree.leaves(verdict) == []
    assert hash(verdict) == hash(Verdict(True, "Fine.", {"gap": 0.5}))
    assert jax.jit(lambda v: v)(verdict) == verdict
    with pytest.raises(ValueError, match="`gap` must be known: a verdict is given outside `jit`"):
        jax.jit(lambda x: Verdict(True, "Fine.", {"gap": x}).items)(1.0)


def test_a_verdict_is_kept_in_files(tmp_path):
    verdict = Verdict(False, "Broken.", {"gap": 0.5, "entries": [1, 2]})
    save(tmp_path / "verdict", verdict)
    assert load(tmp_path / "verdict") == verdict


def test_a_result_is_printed_with_its_verdict():
    class Result(Module):
        value: jax.Array
        verdict: Verdict

    text = repr(Result(jnp.asarray(2.0), Verdict(True, "Exact.")))
    assert text == "Result(value=2.0)\n  Exact."
