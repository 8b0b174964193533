"""Networks with known answers: the chest clinic's published numbers, mixtures by Bayes' rule."""

import math

import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from tractable import datasets
from tractable.distributions.continuous import Normal
from tractable.distributions.mixture import Mixture
from tractable.graphs.bundled import NETWORKS
from tractable.graphs.example_networks import (
    canonical_network,
    chest_clinic,
    lung_cancer,
    mixture_network,
    random_network,
    sprinkler,
    student,
    survey,
)

WEIGHTS, MEANS, VARIANCE = np.array([0.2, 0.5, 0.3]), np.array([-2.0, 0.0, 3.0]), 1.5
POINTS = np.array([-1.0, 0.4, 2.5, 0.1])


def test_sprinkler_is_wet_with_the_known_probability():
    found = sprinkler().marginals()
    assert math.isclose(found["wet"]["yes"], 0.6471, rel_tol=1e-12)
    assert math.isclose(found["sprinkler"]["yes"], 0.3, rel_tol=1e-12)


def test_chest_clinic_meets_the_reference(oracles):
    import json

    cases = json.loads((oracles / "networks" / "marginals.json").read_text())["asia"]
    known = {
        "tuberculosis": "tub",
        "smoking": "smoke",
        "cancer": "lung",
        "bronchitis": "bronc",
        "dyspnoea": "dysp",
    }
    names = {known.get(name, name): name for name in chest_clinic().names}
    for case in cases:
        evidence = {names[name]: state for name, state in case["evidence"].items()}
        found = chest_clinic().marginals(evidence)
        assert math.isclose(found.log_evidence, math.log(case["probability_of_evidence"]), abs_tol=1e-12)
        for name, states in case["marginals"].items():
            assert found[names[name]] == pytest.approx(states, abs=1e-12)


def test_lung_cancer_meets_the_reference(oracles):
    import json

    net = lung_cancer()
    names, states = {"Smoker": "smoker", "Dyspnoea": "dyspnoea"}, {"True": "yes", "False": "no"}
    states |= {"positive": "yes", "negative": "no"}
    for case in json.loads((oracles / "networks" / "marginals.json").read_text())["cancer"]:
        evidence = {names.get(n, n.lower()): states.get(s, s) for n, s in case["evidence"].items()}
        found = net.marginals(evidence)
        assert math.isclose(found.log_evidence, math.log(case["probability_of_evidence"]), abs_tol=1e-12)
        for name, known in case["marginals"].items():
            here = {states.get(state, state): p for state, p in known.items()}
            assert found[names.get(name, name.lower())] == pytest.approx(here, abs=1e-12)


def test_survey_follows_its_tables():
    school = np.array([[0.75, 0.64], [0.72, 0.70], [0.88, 0.90]])
    schooled = np.array([0.3, 0.5, 0.2]) @ school @ np.array([0.6, 0.4])
    self_employed, small = 0.04 * schooled + 0.08 * (1 - schooled), 0.25 * schooled + 0.2 * (1 - schooled)
    found = survey().marginals()
    assert math.isclose(found["education"]["school"], schooled, rel_tol=1e-12)
    assert math.isclose(found["occupation"]["self"], self_employed, rel_tol=1e-12)
    assert math.isclose(found["residence"]["small"], small, rel_tol=1e-12)
    given = survey().marginals({"occupation": "self", "residence": "big"})
    assert given["travel"] == pytest.approx({"car": 0.70, "train": 0.21, "other": 0.09}, abs=1e-12)


def test_bundled_networks_are_found_by_name():
    found = {name: datasets.network(name) for name in NETWORKS}
    assert all(math.isclose(net.marginals().log_evidence, 0.0, abs_tol=1e-12) for net in found.values())
    assert found["asia"].names == chest_clinic().names
    with pytest.raises(ValueError, match=r"`name` must be one of 'asia', 'cancer'.*; got 'alarm'"):
        datasets.network("alarm")


def test_student_grades_follow_intelligence_and_difficulty():
    net = student()
    causal = net.marginals({"difficulty": "hard", "intelligence": "high"})
    assert causal["grade"] == pytest.approx({"A": 0.45, "B": 0.35, "C": 0.2}, abs=1e-12)
    assert causal["passed"] == pytest.approx({"no": 0.3, "yes": 0.7}, abs=1e-12)
    # P(intelligence = high | grade = C) by hand
    low = 0.7 * (0.6 * 0.30 + 0.4 * 0.70)
    high = 0.3 * (0.6 * 0.05 + 0.4 * 0.20)
    found = net.marginals({"grade": "C"})["intelligence"]["high"]
    assert math.isclose(found, high / (low + high), rel_tol=1e-12)


def test_mixture_with_one_shared_label():
    net = mixture_network(WEIGHTS, MEANS, VARIANCE, 4, shared=True)
    evidence = {f"x{i}": x for i, x in enumerate(POINTS)}
    likelihood = scipy.stats.norm.pdf(POINTS[:, None], MEANS, math.sqrt(VARIANCE)).prod(0)
    exact = WEIGHTS * likelihood
    np.testing.assert_allclose(net.query("z", evidence).probs, exact / exact.sum(), rtol=1e-10)
    assert math.isclose(net.log_evidence(evidence), math.log(exact.sum()), rel_tol=1e-10)


def test_mixture_with_one_label_per_point():
    net = mixture_network(WEIGHTS, MEANS, VARIANCE, 4, shared=False)
    evidence = {f"x{i}": x for i, x in enumerate(POINTS)}
    mixture = Mixture(WEIGHTS, Normal(MEANS, np.full(3, math.sqrt(VARIANCE))))
    exact = np.asarray(mixture.responsibilities(POINTS))
    for i in range(4):
        np.testing.assert_allclose(net.query(f"z{i}", evidence).probs, exact[i], rtol=1e-10)
    assert math.isclose(net.log_evidence(evidence), float(mixture.log_prob(POINTS).sum()), rel_tol=1e-10)
    found = net.density("x0", {"x1": 0.4})  # other points say nothing: the mixture itself
    assert math.isclose(float(found.log_prob(0.7)), float(mixture.log_prob(0.7)), rel_tol=1e-12)


def test_random_networks_are_reproducible_and_have_the_zeros_asked_for():
    first, second = (random_network(jr.key(5), 9, max_parents=3, zeros=0.3) for _ in range(2))
    assert first.dag == second.dag
    cells = np.concatenate([np.ravel(t.probs) for t in first.factors])
    np.testing.assert_array_equal(cells, np.concatenate([np.ravel(t.probs) for t in second.factors]))
    assert 0 < (cells == 0).mean() < 0.5
    assert max(len(t.given) for t in first.factors) <= 3
    whole = random_network(jr.key(5), 9)
    assert all((np.asarray(t.probs) > 0).all() for t in whole.factors)


def test_shapes_are_named():
    with pytest.raises(ValueError, match="`shape` must be one of 'chain', 'fork', 'collider'; got 'ring'"):
        canonical_network("ring", jr.key(0))
    with pytest.raises(ValueError, match="`means` must be one number per component"):
        mixture_network(WEIGHTS, np.ones((2, 2)), 1.0, 2, shared=True)
