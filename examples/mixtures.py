"""Three groups of penguins' measurements, some missing: groups found, gaps filled, doubt stated.

The groups are found by BIC among mixtures of one to five Gaussians, with a fifth of one column missing.
"""

import jax.random as jr
import numpy as np

import tractable as tr
from tractable.distributions.soft_gaps import impute


def table(count: int = 240) -> tuple[np.ndarray, np.ndarray]:
    """Bill length and depth, flipper length and mass of three made-up species."""
    numbers = np.random.default_rng(1)
    centres = np.array(
        [[38.8, 18.3, 190.0, 3700.0], [48.8, 18.4, 196.0, 3730.0], [47.5, 15.0, 217.0, 5080.0]]
    )
    size = np.array([2.4, 1.1, 5.5, 380.0])
    species = numbers.integers(3, size=count)
    return centres[species] + size * numbers.normal(size=(count, 4)), species


def main() -> None:
    """Fit with gaps, and compare with what was hidden."""
    rows, species = table()
    gaps = rows.copy()
    hidden = np.random.default_rng(2).random(len(rows)) < 0.2
    gaps[hidden, 2] = np.nan
    choice = tr.latent.choose_components(
        gaps, [1, 2, 3, 4, 5], key=jr.key(0), covariance="diagonal", num_starts=3
    )
    model = choice.best.state
    print(choice)
    print(choice.best.verdict)
    labels = model.labels(gaps)
    purity = np.mean([np.bincount(labels[species == s]).max() / (species == s).sum() for s in range(3)])
    filled = impute(model, gaps)[hidden, 2]
    error = np.sqrt(np.mean((filled - rows[hidden, 2]) ** 2))
    by_mean = np.sqrt(np.mean((np.nanmean(gaps[:, 2]) - rows[hidden, 2]) ** 2))
    print(f"{model.num_components} groups, {purity:.0%} pure")
    print(f"error of filled gaps {error:.1f}, by the mean of the column {by_mean:.1f}")
    assert model.num_components == 3
    assert purity > 0.9
    assert error < 0.7 * by_mean


if __name__ == "__main__":
    main()
