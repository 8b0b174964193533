"""Answers of 60 persons to 6 questions: abilities and difficulties below them, by nested Laplace.

The oracle integrates each ability by quadrature and walks through what is left, in plain NumPy.
"""

import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

import tractable as tr
from tractable.distributions import Bernoulli, HalfNormal, Normal

PERSONS, QUESTIONS = 40, 4


@tr.model
def answers(right=None):
    spread = tr.sample("spread", HalfNormal(2.0))
    with tr.plate("question", QUESTIONS):
        difficulty = tr.sample("difficulty", Normal(0.0, 2.0))
    with tr.plate("person", PERSONS):
        ability = tr.sample("ability", Normal(0.0, spread))
    with tr.plate("person", PERSONS), tr.plate("question", QUESTIONS):
        chance = 1 / (1 + jnp.exp(difficulty[None, :] - ability[:, None]))
        tr.sample("right", Bernoulli(chance), obs=right)


def walk(right: np.ndarray, root: np.ndarray, start: np.ndarray, steps: int) -> np.ndarray:
    """Random-walk Metropolis on difficulties and log-spread, abilities integrated over a grid."""
    rng = np.random.default_rng(0)
    z = np.linspace(-5, 5, 31)
    prior, scores, margins = norm.logpdf(z), right.sum(1), right.sum(0)

    def density(point: np.ndarray) -> float:
        hard, spread = point[:-1], np.exp(point[-1])
        # the answers of a person enter by their number alone
        nothing = -np.logaddexp(0, spread * z[:, None] - hard).sum(1) + prior
        by_score = np.exp(np.arange(QUESTIONS + 1)[:, None] * spread * z + nothing).sum(1)
        value = np.log(by_score)[scores].sum() - margins @ hard - 0.125 * hard @ hard
        return value - 0.125 * spread**2 + point[-1]

    here, value, path = start, density(start), []
    for noise, level in zip(rng.normal(size=(steps, len(start))) @ root.T, np.log(rng.random(steps))):
        there = here + 0.9 * noise
        new = density(there)
        if new - value > level:
            here, value = there, new
        path.append(here)
    return np.array(path)


def main() -> None:
    rng = np.random.default_rng(4)
    ability, difficulty = rng.normal(size=PERSONS), np.linspace(-1.5, 1.5, QUESTIONS)
    right = (rng.random((PERSONS, QUESTIONS)) < 1 / (1 + np.exp(difficulty - ability[:, None]))).astype(int)

    post = tr.infer(answers, right=right, key=0)
    print(post.explain())
    print(post.verdict)
    print(post.summary(["spread", "difficulty"]))
    assert (post.explain().before, post.explain().after) == (45, 1)
    assert post.verdict.ok

    draws = np.concatenate([post["difficulty"][0], np.log(post["spread"][0])[:, None]], 1)
    path = walk(right, np.linalg.cholesky(np.cov(draws.T)), draws.mean(0), 20_000)
    batches = path.reshape(20, -1, QUESTIONS + 1).mean(1)
    error = np.hypot(batches.std(0, ddof=1) / np.sqrt(20), draws.std(0) / np.sqrt(len(draws)))
    far = (draws.mean(0) - path.mean(0)) / error
    print("distance from the walk in standard errors:", far.round(1))
    assert np.abs(far).max() < 4.5
    assert np.abs(draws.std(0) / path.std(0) - 1).max() < 0.12


if __name__ == "__main__":
    main()
