"""Rents that spread with size: lines for quantiles, a law for each flat, and what a normal model would say.

Small flats have nearly one price, large ones anything from cheap to luxurious. A line for each quantile sees
that; the interval of a large flat is wider, and lopsided.
"""

import numpy as np

from tractable.estimators import BayesianLinearRegressor, QuantileRegressor


def main() -> None:
    """Fit both, compare on new flats, price two of them."""
    random = np.random.default_rng(4)
    size = random.uniform(20, 150, 1500)
    centre = random.uniform(0, 10, 1500)
    rent = 200 + 9 * size - 12 * centre + 3 * (size - 15) * random.gamma(0.8, size=1500)
    columns, train, test = np.column_stack([size, centre]), slice(0, 1000), slice(1000, 1500)

    model = QuantileRegressor().fit(columns[train], rent[train])
    normal = BayesianLinearRegressor().fit(columns[train], rent[train])
    print(model.summary(quantile=0.1), model.summary(quantile=0.9), sep="\n")
    scores = {}
    for name, each in (("quantiles", model), ("normal", normal)):
        low, high = each.predict_interval(columns[test], 0.8)
        inside = (low <= rent[test]) & (rent[test] <= high)
        large = size[test] > 120
        scores[name] = each.log_score(columns[test], rent[test])
        print(f"{name:10} log-score {scores[name]:.3f}  inside 80 %: {inside.mean():.2f}, "
              f"of the large flats {inside[large].mean():.2f}")  # fmt: skip
        if name == "quantiles":
            assert abs(inside[large].mean() - 0.8) < 0.12
    law = model.predict_dist([[30.0, 5.0], [140.0, 5.0]])
    for metres, row in ((30, 0), (140, 1)):
        low, middle, high = (law.icdf(level)[row] for level in (0.1, 0.5, 0.9))
        print(f"{metres} square metres: {low:.0f} to {high:.0f}, half of them below {middle:.0f}")
    assert scores["quantiles"] > scores["normal"] + 0.2
    assert model.coef_[-1, 0] > model.coef_[0, 0] + 3


if __name__ == "__main__":
    main()
