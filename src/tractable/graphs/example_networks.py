r"""Small networks with known answers: published ones by name, three canonical shapes, mixtures.

Shapes.      Chain $a \to c \to b$, fork $a \leftarrow c \to b$, collider $a \to c \leftarrow b$; and
             $c \to d$.
Mixtures.    One label $z$ for all points, $p(z \mid x) \propto p(z) \prod_i N(x_i \mid \mu_z, \sigma^2)$; or
             one for each, $p(z_i \mid x_i) \propto p(z_i) N(x_i \mid \mu_{z_i}, \sigma^2)$.
Cost.        None to speak of.
References.  Pearl (1988); Lauritzen and Spiegelhalter (1988); Koller and Friedman (2009); Korb and Nicholson
             (2010), chapter 2 (cancer, earthquake); Scutari and Denis (2014), chapter 1 (survey).
"""

from typing import Any

import numpy as np

from tractable.core.checks import as_float, check, check_count, check_option
from tractable.core.host_random import generator
from tractable.core.types import ArrayLike, Key
from tractable.distributions.tables import ConditionalTable
from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.hybrid_network import HybridNetwork
from tractable.graphs.nodes import GaussianNode, deterministic

__all__ = [
    "canonical_network", "chest_clinic", "earthquake", "lung_cancer", "mixture_network", "random_network",
    "sprinkler", "student", "survey",
]  # fmt: skip

_BINARY = ("no", "yes")


def sprinkler() -> BayesNet:
    """Clouds make rain likely and the sprinkler idle; either wets the grass.

    >>> round(sprinkler().marginals({"wet": "yes"})["rain"]["yes"], 7)
    0.7079277
    """
    return BayesNet(
        [
            _binary("cloudy", (), 0.5),
            _binary("sprinkler", "cloudy", [0.5, 0.1]),
            _binary("rain", "cloudy", [0.2, 0.8]),
            _binary("wet", ("sprinkler", "rain"), [[0.0, 0.9], [0.9, 0.99]]),
        ]
    )


def student() -> BayesNet:
    """An exam of some difficulty, a student of some intelligence, the grade, and a hard exam passed."""
    grades = [[[0.30, 0.40, 0.30], [0.85, 0.10, 0.05]], [[0.05, 0.25, 0.70], [0.45, 0.35, 0.20]]]
    states = {"difficulty": ["easy", "hard"], "intelligence": ["average", "high"], "grade": ["A", "B", "C"]}
    return BayesNet(
        [
            ConditionalTable("difficulty", (), [0.6, 0.4], [states["difficulty"]]),
            ConditionalTable("intelligence", (), [0.7, 0.3], [states["intelligence"]]),
            ConditionalTable("grade", ["difficulty", "intelligence"], grades, states),
            ConditionalTable(
                "passed", "intelligence", [[0.9, 0.1], [0.3, 0.7]], [states["intelligence"], _BINARY]
            ),
        ]
    )


def chest_clinic() -> BayesNet:
    """Tuberculosis, lung cancer or bronchitis? The network known as Asia, of 1988."""
    causes = {"tuberculosis": _BINARY, "cancer": _BINARY}
    either = deterministic("either", causes, lambda t, c: "yes" if "yes" in (t, c) else "no", _BINARY)
    return BayesNet(
        [
            _binary("asia", (), 0.01),
            _binary("smoking", (), 0.5),
            _binary("tuberculosis", "asia", [0.01, 0.05]),
            _binary("cancer", "smoking", [0.01, 0.1]),
            _binary("bronchitis", "smoking", [0.3, 0.6]),
            either,
            _binary("xray", "either", [0.05, 0.98]),
            _binary("dyspnoea", ("bronchitis", "either"), [[0.1, 0.7], [0.8, 0.9]]),
        ]
    )


def lung_cancer() -> BayesNet:
    """Pollution and smoking cause lung cancer, which shows on an X-ray and as shortness of breath."""
    air = ("low", "high")
    risk = [[[0.999, 0.001], [0.97, 0.03]], [[0.98, 0.02], [0.95, 0.05]]]
    return BayesNet(
        [
            ConditionalTable("pollution", (), [0.9, 0.1], [air]),
            _binary("smoker", (), 0.3),
            ConditionalTable("cancer", ["pollution", "smoker"], risk, [air, _BINARY, _BINARY]),
            _binary("xray", "cancer", [0.2, 0.9]),
            _binary("dyspnoea", "cancer", [0.3, 0.65]),
        ]
    )


def earthquake() -> BayesNet:
    """A burglar or an earthquake sets off the alarm, and John or Mary may call."""
    return BayesNet(
        [
            _binary("burglary", (), 0.01),
            _binary("earthquake", (), 0.02),
            _binary("alarm", ("burglary", "earthquake"), [[0.001, 0.29], [0.94, 0.95]]),
            _binary("john_calls", "alarm", [0.05, 0.9]),
            _binary("mary_calls", "alarm", [0.01, 0.7]),
        ]
    )


def survey() -> BayesNet:
    """How people travel, by age, sex, education, occupation and the size of their town."""
    states = {
        "age": ["young", "adult", "old"],
        "sex": ["male", "female"],
        "education": ["school", "university"],
        "occupation": ["employed", "self"],
        "residence": ["small", "big"],
        "travel": ["car", "train", "other"],
    }
    school = np.array([[0.75, 0.64], [0.72, 0.70], [0.88, 0.90]])
    travel = [[[0.48, 0.42, 0.10], [0.58, 0.24, 0.18]], [[0.56, 0.36, 0.08], [0.70, 0.21, 0.09]]]

    def table(name: str, given: tuple[str, ...], probs: Any) -> ConditionalTable:
        return ConditionalTable(name, given, probs, [states[each] for each in (*given, name)])

    return BayesNet(
        [
            table("age", (), [0.3, 0.5, 0.2]),
            table("sex", (), [0.6, 0.4]),
            table("education", ("age", "sex"), np.stack([school, 1 - school], -1)),
            table("occupation", ("education",), [[0.96, 0.04], [0.92, 0.08]]),
            table("residence", ("education",), [[0.25, 0.75], [0.20, 0.80]]),
            table("travel", ("occupation", "residence"), travel),
        ]
    )


def canonical_network(shape: str, key: Key) -> BayesNet:
    """A `chain`, `fork` or `collider` of `a`, `b` and `c` in the middle, and `d` below it; random tables."""
    check_option("shape", shape, ("chain", "fork", "collider"))
    parents = {"chain": {"a": (), "c": "a", "b": "c"}, "fork": {"c": (), "a": "c", "b": "c"}}
    families = parents.get(shape, {"a": (), "b": (), "c": ("a", "b")})
    numbers = generator(key)
    return BayesNet(
        [_random_table(name, tuple(given), numbers) for name, given in {**families, "d": "c"}.items()]
    )


def mixture_network(
    weights: ArrayLike, means: ArrayLike, variance: float, num_points: int, *, shared: bool
) -> HybridNetwork:
    """A mixture of Gaussians as a network: points `x0`, `x1`, ... and one label `z`, or `z0`, `z1`, ...

    >>> net = mixture_network([0.5, 0.5], [-1.0, 1.0], 1.0, 2, shared=True)
    >>> round(float(net.query("z", {"x0": 1.0, "x1": -1.0}).probs[0]), 6)
    0.5
    """
    count, centres = check_count("num_points", num_points), as_float("means", means)
    check(centres.ndim == 1, "means", "one number per component", f"shape {centres.shape}")
    labels = ["z"] if shared else [f"z{i}" for i in range(count)]
    points = [
        GaussianNode(
            f"x{i}",
            bias=centres,
            variance=np.full(centres.shape, variance),
            given="z" if shared else f"z{i}",
        )
        for i in range(count)
    ]
    return HybridNetwork([*(ConditionalTable(name, (), weights) for name in labels), *points])


def random_network(
    key: Key, num_variables: int, *, max_parents: int = 2, max_states: int = 3, zeros: float = 0.0
) -> BayesNet:
    """A network of variables `x0`, `x1`, ... with random parents among those before, sizes and tables.

    A share `zeros` of the cells is zero, but never a whole row.
    """
    count, numbers = check_count("num_variables", num_variables), generator(key)
    most = check_count("max_states", max_states, least=2)
    sizes = numbers.integers(2, most + 1, count)
    tables = []
    for i in range(count):
        number = int(numbers.integers(0, min(i, check_count("max_parents", max_parents, 0)) + 1))
        given = numbers.choice(i, number, replace=False) if number else np.zeros(0, int)
        rows = numbers.dirichlet(np.ones(sizes[i]), tuple(sizes[given]))
        dropped = numbers.random(rows.shape) < zeros
        dropped[..., 0] &= ~dropped.all(-1)  # leave a state to each row
        rows = np.where(dropped, 0.0, rows)
        names = [f"x{j}" for j in given]
        tables.append(ConditionalTable(f"x{i}", names, rows / rows.sum(-1, keepdims=True)))
    return BayesNet(tables)


def _binary(name: str, given: Any, yes: Any) -> ConditionalTable:
    """A table of two states from the probability of the second."""
    probs = np.stack([1 - np.asarray(yes), np.asarray(yes)], -1)
    return ConditionalTable(name, given, probs, [_BINARY] * probs.ndim)


def _random_table(name: str, given: tuple[str, ...], numbers: np.random.Generator) -> ConditionalTable:
    return ConditionalTable(name, given, numbers.dirichlet([1.0, 1.0, 1.0], (3,) * len(given)))
