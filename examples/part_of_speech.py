"""Part-of-speech tagging: counts of a small tagged corpus, smoothed for unknown words; the best path."""

import numpy as np

from tractable.statespace import HiddenMarkov
from tractable.statespace.hmm.learning import fit_labelled

TAGGED = """
the/D dog/N runs/V . a/D cat/N sleeps/V . the/D old/A dog/N barks/V loudly/R . she/P sees/V the/D cat/N .
he/P runs/V quickly/R . the/D red/A car/N stops/V . a/D small/A bird/N sings/V . they/P watch/V the/D bird/N .
the/D watch/N stops/V . she/P runs/V a/D small/A shop/N . the/D run/N ends/V . they/P run/V quickly/R .
a/D loud/A dog/N barks/V . he/P sees/V a/D red/A bird/N . the/D cat/N watches/V the/D small/A dog/N .
they/P sing/V loudly/R . the/D old/A car/N runs/V . a/D dog/N sees/V the/D old/A man/N .
the/D man/N sleeps/V .
she/P watches/V a/D run/N . he/P stops/V the/D car/N . they/P see/V the/D shop/N . the/D shop/N opens/V .
"""
TAGS = ["D", "N", "V", "A", "R", "P"]


def corpus() -> list[list[tuple[str, str]]]:
    sentences = [part.split() for part in TAGGED.split(" .")]
    return [[tuple(token.split("/")) for token in sentence] for sentence in sentences if sentence]


def coded(sentence: list[str], words: dict[str, int]) -> list[int]:
    """Words as numbers; all that were never seen share the last."""
    return [words.get(word, len(words)) for word in sentence]


def main() -> None:
    sentences = corpus()
    train, test = sentences[:-5], sentences[-5:]
    words = {w: i for i, w in enumerate(sorted({w for s in train for w, _ in s}))}
    k, size = len(TAGS), len(words) + 1
    shape = HiddenMarkov(np.full(k, 1 / k), np.full((k, k), 1 / k), np.full((k, size), 1 / size))
    xs = [coded([w for w, _ in s], words) for s in train]
    zs = [[TAGS.index(t) for _, t in s] for s in train]
    tagger = fit_labelled(shape, xs, zs, smoothing=0.1)

    right = total = alone = 0
    common = np.asarray(tagger.emissions.table)  # each word by itself: its likeliest tag
    for sentence in test:
        seen = coded([w for w, _ in sentence], words)
        path, value = tagger.viterbi(seen)
        truth = np.array([TAGS.index(t) for _, t in sentence])
        right, total = right + (path == truth).sum(), total + len(truth)
        alone += (common[:, seen].argmax(0) == truth).sum()
        print(" ".join(f"{w}/{TAGS[t]}" for (w, _), t in zip(sentence, path)), f"({value:.1f})")
    print(f"accuracy {right / total:.1%}; word by word {alone / total:.1%}")
    assert right / total > 0.85
    assert right >= alone

    # the same word is a noun after "the" and a verb after "they"; an unknown word takes the tag of its place
    noun, _ = tagger.viterbi(coded(["the", "run", "stops"], words))
    verb, _ = tagger.viterbi(coded(["they", "run", "quickly"], words))
    unknown, _ = tagger.viterbi(coded(["the", "zyzzyva", "sleeps"], words))
    assert (TAGS[noun[1]], TAGS[verb[1]], TAGS[unknown[1]]) == ("N", "V", "N")


if __name__ == "__main__":
    main()
