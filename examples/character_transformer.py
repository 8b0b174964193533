"""A small transformer learns the words of a grammar letter by letter, and writes sentences of its own."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.neural import LanguageModel, beam_search, sample_sequence, token_cross_entropy, train
from tractable.optim.gradient import Adam

NOUNS, VERBS = ("cat", "dog", "bird"), ("sees", "hears")
LETTERS = ".abcdefghijklmnopqrstuvwxyz "
LENGTH = 24


def sentences(generator: np.random.Generator, num: int) -> list[str]:
    """Noun, verb, noun, where nobody sees or hears itself."""
    pairs = [generator.choice(NOUNS, 2, replace=False) for _ in range(num)]
    return [f"{subject} {generator.choice(VERBS)} {thing}." for subject, thing in pairs]


def as_tokens(text: str) -> list[int]:
    return [LETTERS.index(letter) for letter in text]


def main() -> None:
    rows = np.zeros((400, LENGTH + 1), np.int32)
    targets = np.full((400, LENGTH), -1, np.int32)  # behind the full stop nothing is asked
    for i, text in enumerate(sentences(np.random.default_rng(0), 400)):
        rows[i, 1 : len(text) + 1] = targets[i, : len(text)] = as_tokens(text)
    model = LanguageModel(len(LETTERS), 32, 2, 2, hidden=64, capacity=LENGTH, key=jr.key(0))
    run = train(
        model, (rows[:, :-1], targets), token_cross_entropy, method=Adam(5e-3), batch=30, epochs=8,
        key=jr.key(1), progress=False,
    )  # fmt: skip
    model = run.state
    print("mean surprise per letter, by epoch:", np.round(np.asarray(run.trace), 3).tolist())

    def write(key):
        return sample_sequence(
            key, model.step, model.start(), 0, length=LENGTH, end=0, temperature=0.7
        ).tokens

    drawn = jax.jit(jax.vmap(write))(jr.split(jr.key(2), 40))
    texts = ["".join(LETTERS[t] for t in row).rstrip(".") + "." for row in np.asarray(drawn)]
    allowed = {f"{a} {v} {b}." for a in NOUNS for v in VERBS for b in NOUNS if a != b}
    right = np.mean([text in allowed for text in texts])
    print(f"{right:.0%} of 40 sentences are of the grammar, such as:", *sorted(set(texts))[:4])

    # Twelve sentences share the mass; the beam finds them, and the model has learned that they are all.
    beam = beam_search(model.step, model.start(), 0, length=LENGTH, width=12, end=0)
    mass = float(jnp.exp(beam.log_prob).sum())
    found = {"".join(LETTERS[t] for t in row).rstrip(".") + "." for row in np.asarray(beam.tokens)}
    print(f"the twelve best of the beam hold {mass:.1%} of the mass")
    assert found == allowed
    assert mass > 0.8
    assert right > 0.85


if __name__ == "__main__":
    main()
