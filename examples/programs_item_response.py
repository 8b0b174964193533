"""Answers of 40 persons to 4 questions: abilities and difficulties below them, by nested Laplace.

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


def walk(right: np.ndarray, root: np.ndarray, starts: np.ndarray, steps: int) -> np.ndarray:
    """Random walks by Metropolis on difficulties and log-spread, abilities integrated over a grid."""
    rng = np.random.default_rng(0)
    z = np.linspace(-5, 5, 31)
    prior, margins = norm.logpdf(z), right.sum(0)
    scores = np.arange(QUESTIONS + 1)
    persons = np.bincount(right.sum(1), minlength=len(scores))  # their answers enter by their number alone

    def density(points: np.ndarray) -> np.ndarray:
        hard, spread = points[:, :-1], np.exp(points[:, -1:])
        nothing = -np.logaddexp(0, (spread * z)[:, :, None] - hard[:, None, :]).sum(2) + prior
        by_score = np.exp(scores[:, None] * (spread * z)[:, None, :] + nothing[:, None, :]).sum(2)
        value = np.log(by_score) @ persons - hard @ margins - 0.125 * (hard**2).sum(1)
        return value + (points - 0.125 * np.exp(2 * points))[:, -1]

    here, value, path = starts, density(starts), []
    for _ in range(steps):
        there = here + 0.9 * rng.normal(size=here.shape) @ root.T
        new = density(there)
        goes = new - value > np.log(rng.random(len(here)))
        here, value = np.where(goes[:, None], there, here), np.where(goes, new, value)
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
    root = np.linalg.cholesky(np.cov(draws.T))
    starts = draws.mean(0) + 2 * rng.normal(size=(50, len(root))) @ root.T
    path = walk(right, root, starts, 600)[200:]
    own = path.mean(0)  # of each walk
    path = path.reshape(-1, len(root))
    error = np.hypot(own.std(0, ddof=1) / np.sqrt(len(own)), draws.std(0) / np.sqrt(len(draws)))
    far = (draws.mean(0) - path.mean(0)) / error
    print("distance from the walk in standard errors:", far.round(1))
    assert np.abs(far).max() < 4.5
    assert np.abs(draws.std(0) / path.std(0) - 1).max() < 0.12


if __name__ == "__main__":
    main()
