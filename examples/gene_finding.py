"""Gene finding: DNA read as a hidden path through intergenic letters, a promoter, codons and a stop codon."""

import jax.random as jr
import numpy as np

import tractable as tr
from tractable.inference import EM
from tractable.statespace import HiddenMarkov
from tractable.statespace.hmm.learning import fit_labelled

BASES = "ACGT"
# states: 0 intergenic; 1-6 promoter TATAAT; 7-9 start ATG; 10-12 a codon; 13-15 stop TAA
NAMES = ["between", *["promoter"] * 6, *["start"] * 3, *["codon"] * 3, *["stop"] * 3]
NUM = len(NAMES)
GENE = range(7, 16)


def model() -> HiddenMarkov:
    """A codon is three letters, so it has three states, one after the other: triplets need no memory."""
    moves = np.zeros((NUM, NUM))
    moves[0, 0], moves[0, 1] = 0.98, 0.02
    for state in range(1, 9):
        moves[state, state + 1] = 1.0
    moves[9, 10] = moves[10, 11] = moves[11, 12] = 1.0
    moves[12, 10], moves[12, 13] = 0.96, 0.04
    moves[13, 14] = moves[14, 15] = moves[15, 0] = 1.0
    table = np.full((NUM, 4), 0.25)
    for state, base in zip([*range(1, 7), *range(7, 10), *range(13, 16)], "TATAATATGTAA", strict=True):
        noise = 0.05 if state <= 6 else 0.0  # promoters vary, start and stop codons do not
        table[state] = noise / 3
        table[state, BASES.index(base)] = 1 - noise
    table[10] = [0.15, 0.25, 0.45, 0.15]  # coding letters are richer in G and C
    table[11] = [0.30, 0.25, 0.20, 0.25]
    table[12] = [0.10, 0.40, 0.40, 0.10]
    return HiddenMarkov(np.eye(NUM)[0], moves, table)


def main() -> None:
    true = model()
    states, dna = true.sample(jr.key(0), 6000)
    inside = np.isin(states, GENE)
    print("".join(BASES[b] for b in dna[:60]), "...")

    path, value = true.viterbi(dna)
    decoded = np.isin(path, GENE)
    smoothed = true.smooth(dna)
    share = smoothed.marginals[:, list(GENE)].sum(1)
    print(f"log p(x, z*) = {value:.1f}, log p(x) = {smoothed.log_likelihood:.1f}")
    print(f"letters in genes: {inside.mean():.1%} true, {decoded.mean():.1%} found")
    agreement = np.mean(decoded == inside)
    assert agreement > 0.9
    assert np.mean((share > 0.5) == inside) >= agreement - 0.02  # fewest wrong letters

    # genes are whole: between the start and the stop there are whole codons, which the path never breaks
    starts = np.flatnonzero(path == 7)
    stops = np.flatnonzero(path == 15)
    whole = [stop - start + 1 for start, stop in zip(starts, stops)]
    assert all(length % 3 == 0 for length in whole)

    # counts from annotated DNA, and Baum-Welch where there is none: what is impossible stays impossible
    learnt = fit_labelled(true, dna, states, smoothing=0.1)
    assert np.abs(np.asarray(learnt.transition)[12, 13] - 0.04) < 0.03
    run = tr.fit(learnt, dna, EM(max_steps=5))
    assert (np.diff(np.asarray(run.values)) > -1e-6).all()
    assert ((np.asarray(run.state.transition) > 0) <= (np.asarray(true.transition) > 0)).all()


if __name__ == "__main__":
    main()
