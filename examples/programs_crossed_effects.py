"""Readings by 12 judges of 30 wines: crossed effects are integrated, two spreads are left to quadrature."""

import numpy as np

import tractable as tr
from tractable.distributions import HalfNormal, Normal

JUDGES, WINES, ERROR = 12, 30, 0.5


@tr.model
def crossed(judge, wine, y=None):
    mean = tr.sample("mean", Normal(0.0, 5.0))
    strictness = tr.sample("strictness", HalfNormal(1.0))
    quality = tr.sample("quality", HalfNormal(1.0))
    with tr.plate("judge", JUDGES):
        by_judge = tr.sample("by_judge", Normal(0.0, strictness))
    with tr.plate("wine", WINES):
        by_wine = tr.sample("by_wine", Normal(0.0, quality))
    with tr.plate("row", len(judge)):
        tr.sample("y", Normal(mean + by_judge[judge] + by_wine[wine], ERROR), obs=y)


def by_quadrature(judge: np.ndarray, wine: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Log-evidence, mean spreads and the mean effects of the wines: dense covariances on a lattice."""
    same_judge, same_wine = judge[:, None] == judge[None], wine[:, None] == wine[None]
    of_wine = np.arange(WINES)[:, None] == wine[None]
    axis = np.linspace(-2.5, 1.0, 22)
    logs, effects = np.zeros((22, 22)), np.zeros((22, 22, WINES))
    for i, a in enumerate(np.exp(axis)):
        for j, b in enumerate(np.exp(axis)):
            cov = 25.0 + a**2 * same_judge + b**2 * same_wine + ERROR**2 * np.eye(len(y))
            lower = np.linalg.cholesky(cov)
            half = np.linalg.solve(lower, y)
            logs[i, j] = -0.5 * half @ half - np.log(np.diag(lower)).sum() - 0.5 * len(y) * np.log(2 * np.pi)
            logs[i, j] += np.log(2 / np.pi) - 0.5 * (a**2 + b**2) + np.log(a * b)
            effects[i, j] = b**2 * of_wine @ np.linalg.solve(lower.T, half)
    masses = np.exp(logs - logs.max())
    evidence = logs.max() + np.log(masses.sum()) + 2 * np.log(axis[1] - axis[0])
    masses /= masses.sum()
    scales = np.array([masses.sum(1) @ np.exp(axis), masses.sum(0) @ np.exp(axis)])
    return evidence, scales, np.einsum("ij,ijk->k", masses, effects)


def main() -> None:
    rng = np.random.default_rng(3)
    judge, wine = rng.integers(0, JUDGES, 120), rng.integers(0, WINES, 120)
    y = 3.0 + 0.4 * rng.normal(size=JUDGES)[judge] + 0.8 * rng.normal(size=WINES)[wine]
    y = y + ERROR * rng.normal(size=120)

    post = tr.infer(crossed, judge, wine, y=y, key=0)
    print(post.explain())
    print(post.summary(["mean", "strictness", "quality"]))
    assert (post.explain().before, post.explain().after) == (45, 2)
    assert post.verdict.ok

    evidence, scales, effects = by_quadrature(judge, wine, y)
    assert abs(float(post.log_evidence.value) - evidence) < 1e-3
    for name, want in zip(["strictness", "quality"], scales):
        assert abs(post[name].mean() - want) < 4 * post[name].std() / np.sqrt(post[name].size)
    draws = post["by_wine"].reshape(-1, WINES)
    assert np.max(np.abs(draws.mean(0) - effects) / draws.std(0)) < 5 / np.sqrt(len(draws))


if __name__ == "__main__":
    main()
