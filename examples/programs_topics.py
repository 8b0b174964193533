"""A topic model written as a program: classes of words are summed over, and topics swap their names."""

import jax.numpy as jnp
import numpy as np

import tractable as tr
from tractable.distributions import Categorical, Dirichlet


@tr.model
def topics(words, documents):
    """Two topics over three words; the topic of each word is a latent."""
    with tr.plate("topic", 2):
        beta = tr.sample("beta", Dirichlet(jnp.ones(3)))
    with tr.plate("document", 4):
        theta = tr.sample("theta", Dirichlet(jnp.ones(2)))
    with tr.plate("word", len(words)):
        topic = tr.sample("topic", Categorical(theta[documents]))
        tr.sample("words", Categorical(beta[topic]), obs=words)


def by_classes(words: np.ndarray, documents: np.ndarray, num_sweeps: int = 1600) -> np.ndarray:
    """Chances of words in each document, averaged over sweeps of the classes with all else integrated out."""
    random = np.random.default_rng(1)
    classes = random.integers(0, 2, len(words))
    of_document, of_word = np.zeros((4, 2)), np.zeros((2, 3))
    np.add.at(of_document, (documents, classes), 1)
    np.add.at(of_word, (classes, words), 1)
    kept = []
    for _ in range(num_sweeps):
        for i, (word, document) in enumerate(zip(words, documents)):
            of_document[document, classes[i]] -= 1
            of_word[classes[i], word] -= 1
            chances = (of_document[document] + 1) * (of_word[:, word] + 1) / (of_word.sum(1) + 3)
            classes[i] = int(random.random() * chances.sum() > chances[0])
            of_document[document, classes[i]] += 1
            of_word[classes[i], word] += 1
        shares = (of_document + 1) / (of_document + 1).sum(1, keepdims=True)
        kept.append(shares @ ((of_word + 1) / (of_word + 1).sum(1, keepdims=True)))
    return np.array(kept[num_sweeps // 10 :]).reshape((20, -1, 4, 3)).mean(1)


def main() -> None:
    random = np.random.default_rng(0)
    documents = np.repeat(np.arange(4), 12)
    truth = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    shares = np.array([0.95, 0.9, 0.1, 0.05])
    words = np.array([random.choice(3, p=truth[int(random.random() > shares[d])]) for d in documents])
    post = tr.infer(topics, words, documents, key=0)
    print(post.explain())
    print(post.verdict)
    assert post.explain().after == 2 * 3 + 4 * 2  # the Dirichlets remain: given them, words are independent
    assert not post.verdict.ok  # two orders of the topics are equally probable, and chains stay in one
    mixed = np.einsum("cndk,cnkv->cndv", post["theta"], post["beta"])  # chances of words: no order in them
    ours, wanted = mixed.reshape((20, -1, 4, 3)).mean(1), by_classes(words, documents)
    print(ours.mean(0).round(2))
    errors = np.sqrt((ours.var(0, ddof=1) + wanted.var(0, ddof=1)) / 20)
    assert np.all(abs(ours.mean(0) - wanted.mean(0)) < 4.5 * errors)
    assert np.all(errors < 0.03)


if __name__ == "__main__":
    main()
