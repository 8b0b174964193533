"""Naive Bayes on votes and words: one unseen vote makes a party impossible, a pseudo-count restores it."""

import numpy as np

from tractable.supervised import fit_naive_bayes

REPUBLICAN, DEMOCRAT = 0, 1


def votes(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ten bills, forty members of each party; on the last one no Republican said yes."""
    generator = np.random.default_rng(seed)
    party = np.repeat([REPUBLICAN, DEMOCRAT], 40)
    yes = generator.random((80, 10)) < np.where(party[:, None] == REPUBLICAN, 0.9, 0.1)
    yes[:, 9] = (party == DEMOCRAT) & (generator.random(80) < 0.5)
    return yes.astype(float), party


def main() -> None:
    X, party = votes()
    maverick = np.ones((1, 10))  # the Republican line on nine bills, and a yes on the tenth
    counted = fit_naive_bayes(X, party, "bernoulli", smoothing=0.0)
    smoothed = fit_naive_bayes(X, party, "bernoulli", smoothing=1.0)
    before, after = counted.posterior(maverick)[0, REPUBLICAN], smoothed.posterior(maverick)[0, REPUBLICAN]
    print(f"P(Republican) by counting {before}, with a pseudo-count {after:.6f}")
    assert before == 0.0
    assert after > 0.99

    absent = maverick.copy()
    absent[0, 9] = np.nan  # the member was not there: the vote is left out of the product
    print(f"without the tenth vote    {counted.posterior(absent)[0, REPUBLICAN]:.6f}")
    assert counted.posterior(absent)[0, REPUBLICAN] > 0.99

    stream = fit_naive_bayes(X[:50], party[:50], "bernoulli", num_classes=2).update(X[50:], party[50:])
    assert np.allclose(stream.posterior(X), smoothed.posterior(X))
    print(stream)

    words = ["ball", "goal", "team", "vote", "law", "party"]
    texts = ["ball goal team ball", "team goal goal", "vote law party", "law law vote team"]
    counts = np.array([[text.split().count(word) for word in words] for text in texts], float)
    documents = fit_naive_bayes(counts, np.array([0, 0, 1, 1]), "multinomial")
    new = np.array([[0, 2, 1, 0, 0, 0], [0, 0, 1, 0, 1, 1]], float)
    print("P(politics) of 'goal goal team' and 'team law party':", documents.posterior(new)[:, 1].round(3))
    assert documents.predict(new).tolist() == [0, 1]


if __name__ == "__main__":
    main()
