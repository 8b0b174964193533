"""A table raced: costs whose noise grows, models compared on unseen rows, a price that knows the losses."""

import numpy as np
import pandas as pd

import tractable as tr


def table(count: int = 400) -> pd.DataFrame:
    """Sizes, towns and costs; large ones are noisier."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"size": rng.uniform(1, 10, count), "town": rng.choice(["A", "B", "C"], count)})
    noise = (0.1 + 0.1 * rows["size"]) * rng.normal(size=count)
    return rows.assign(cost=5 + 2 * rows["size"] + 3 * (rows["town"] == "B") + noise)


def loss(price: np.ndarray, cost: pd.Series) -> float:
    """A price too low costs the difference, one too high a quarter of it."""
    return float(np.where(cost > price, cost - price, 0.25 * (price - cost)).mean())


def main() -> None:
    rows = table()
    known, new = rows.iloc[:300], rows.iloc[300:]
    found = tr.fit_table(known, "cost", effort="low", seed=0)
    print(found)

    laws = found.predict_dist(new)
    low, high = laws.interval(0.9)
    inside = np.mean((low <= new["cost"]) & (new["cost"] <= high))
    wide = (high - low)[new["size"] > 7].mean() / (high - low)[new["size"] < 4].mean()
    print(f"{inside:.0%} of the new rows are inside 90 % intervals; large ones are {wide:.1f} times as wide.")

    careful, naive = loss(laws.quantile(0.8), new["cost"]), loss(laws.mean, new["cost"])
    print(f"Mean loss: {careful:.3f} by the quantile at 0.8, {naive:.3f} by the mean.")
    assert found.winner != "base rate"
    assert 0.8 <= inside <= 0.98
    assert wide > 1.5
    assert careful < naive


if __name__ == "__main__":
    main()
