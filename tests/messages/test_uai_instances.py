"""Published Markov fields: marginals and log10 of the partition function, to all digits."""

import numpy as np
import pytest

from tractable.messages.junction import junction_tree

NAMES = ["CSP_12", "DBN_11", "Grids_12", "Pedigree_11", "Promedus_24"]


def read_model(path):
    words = iter(path.read_text().split())
    assert next(words) in ("MARKOV", "BAYES")
    sizes = [int(next(words)) for _ in range(int(next(words)))]
    scopes = [tuple(int(next(words)) for _ in range(int(next(words)))) for _ in range(int(next(words)))]
    tables = []
    for scope in scopes:
        numbers = np.array([float(next(words)) for _ in range(int(next(words)))])
        with np.errstate(divide="ignore"):
            tables.append(np.log(numbers).reshape([sizes[v] for v in scope]))
    return scopes, tables, sizes


def read_evidence(path):
    words = [int(word) for word in path.read_text().split()]
    return dict(zip(words[1 : 1 + 2 * words[0] : 2], words[2 : 2 + 2 * words[0] : 2]))


def half_digit(word):
    """Half a unit of the last of the six significant digits that the answers are printed with."""
    value = abs(float(word))
    return 0.5 * 10.0 ** (np.floor(np.log10(value)) - 5) if value > 0 else 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_published_answers(name, oracles):
    folder = oracles / "uai"
    scopes, tables, sizes = read_model(folder / f"{name}.uai")
    evidence = read_evidence(folder / f"{name}.uai.evid")
    found = junction_tree(scopes, sizes).calibrate(tables, evidence)

    published = (folder / f"{name}.uai.PR").read_text().split()[1]
    assert abs(found.log_total / np.log(10) - float(published)) <= 1.01 * half_digit(published)

    words = iter((folder / f"{name}.uai.MAR").read_text().split()[1:])
    assert int(next(words)) == len(sizes)
    for v, row in enumerate(found.marginals()):
        assert int(next(words)) == sizes[v]
        for probability in row:
            word = next(words)
            assert abs(probability - float(word)) <= 1.01 * half_digit(word), (v, probability, word)
