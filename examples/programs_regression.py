"""Regression by formula: groups eliminated exactly, beside ordinary least squares and known effects."""

import numpy as np
import pandas as pd

import tractable as tr


def table() -> tuple[pd.DataFrame, np.ndarray]:
    """Readings in 85 houses' counties, as of radon: many small groups and a slope."""
    rng = np.random.default_rng(2)
    county = rng.integers(0, 85, 600)
    effect = rng.normal(0.0, 0.5, 85)
    frame = pd.DataFrame({"floor": np.where(rng.uniform(size=600) < 0.2, "first", "basement")})
    frame["county"] = [f"c{i:02d}" for i in county]
    frame["uranium"] = rng.normal(size=600)
    mean = 1.4 - 0.7 * (frame["floor"] == "first") + 0.3 * frame["uranium"] + effect[county]
    frame["log_radon"] = mean + rng.normal(0.0, 0.7, 600)
    return frame, effect


def main() -> None:
    frame, effect = table()
    post = tr.regression("log_radon ~ floor + uranium + (1 | county)", frame, key=0)
    print(post.priors)
    print(post.explain())
    print(post.summary(["Intercept", "floor", "uranium", "sd(1|county)", "sigma"]))
    assert (post.explain().before, post.explain().after) == (90, 2)
    assert post.verdict.ok
    truth = {"Intercept": 1.4, "floor[first]": -0.7, "uranium": 0.3, "sd(1|county)": 0.5, "sigma": 0.7}
    for name, value in truth.items():
        assert abs(post[name].mean() - value) < 4 * post[name].std(), name
    far = (post["1|county"].mean((0, 1)) - effect) / post["1|county"].std((0, 1))
    assert 0.7 < np.sqrt(np.mean(far**2)) < 1.3

    pooled = tr.regression("log_radon ~ floor + uranium", frame, key=0)
    gain = float(post.log_evidence.value) - float(pooled.log_evidence.value)
    print(f"The counties are worth {gain:.1f} nats of evidence.")
    assert gain > 10

    houses = pd.DataFrame({"floor": "basement", "uranium": 0.0, "county": ["c05", "unknown"]})
    found = post.predict(houses, key=1)
    print("expected:", found.mean["expected"], "spread:", found.std["expected"])
    assert found.std["expected"][1] > 1.5 * found.std["expected"][0]


if __name__ == "__main__":
    main()
