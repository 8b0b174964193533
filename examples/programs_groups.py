"""Readings in 85 groups: effects of the groups, the slope and the mean are integrated, two numbers remain."""

import numpy as np

import tractable as tr
from tractable.distributions import HalfNormal, Normal


@tr.model
def groups(group, floor, y=None):
    mean = tr.sample("mean", Normal(0.0, 10.0))
    slope = tr.sample("slope", Normal(0.0, 10.0))
    between = tr.sample("between", HalfNormal(1.0))
    within = tr.sample("within", HalfNormal(2.0))
    with tr.plate("group", 85):
        effect = tr.sample("effect", Normal(mean, between))
    with tr.plate("row", len(group)):
        tr.sample("y", Normal(effect[group] + slope * floor, within), obs=y)


def main() -> None:
    rng = np.random.default_rng(1)
    group, floor = rng.integers(0, 85, 500), rng.integers(0, 2, 500).astype(float)
    truth = {"mean": 1.5, "slope": -0.7, "between": 0.6, "within": 0.7}
    effect = truth["mean"] + truth["between"] * rng.normal(size=85)
    y = effect[group] + truth["slope"] * floor + truth["within"] * rng.normal(size=500)

    post = tr.infer(groups, group, floor, y=y, key=0)
    print(post.explain())
    print(post.summary(list(truth)))
    assert (post.explain().before, post.explain().after) == (89, 2)
    assert post.verdict.ok
    for name, value in truth.items():
        assert abs(post[name].mean() - value) < 4 * post[name].std()
    far = (post["effect"].mean((0, 1)) - effect) / post["effect"].std((0, 1))
    assert np.abs(far).max() < 4
    assert 0.7 < np.sqrt(np.mean(far**2)) < 1.3


if __name__ == "__main__":
    main()
