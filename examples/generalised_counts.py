"""Visits to a clinic: counts over different times at risk, a law that fits, and a decision from it.

Three models of the same counts are compared by evidence and by the log-score of rows held out; the best says
how many nurses are needed so that nine days out of ten are covered.
"""

import numpy as np

from tractable.estimators import HeteroscedasticRegressor, NegativeBinomialRegressor, PoissonRegressor


def main() -> None:
    """Fit, compare, decide."""
    random = np.random.default_rng(1)
    columns = np.column_stack(
        [random.normal(size=600), random.integers(0, 2, 600), random.uniform(0, 1, 600)]
    )
    hours = random.choice([4.0, 8.0, 12.0], size=600)
    rate = np.exp(0.4 + 0.5 * columns[:, 0] + 0.6 * columns[:, 1])
    visits = random.poisson(hours * rate * random.gamma(4.0, 0.25, size=600))
    train, test = slice(0, 400), slice(400, 600)

    scores = {}
    for model in (PoissonRegressor(), NegativeBinomialRegressor()):
        model.fit(columns[train], visits[train], exposure=hours[train])
        law = model.predict_dist(columns[test], exposure=hours[test])
        inside = np.mean((law.icdf(0.05) <= visits[test]) & (visits[test] <= law.icdf(0.95)))
        scores[type(model).__name__] = law.row_log_probs(visits[test]).mean()
        print(f"{type(model).__name__:28} evidence {model.log_evidence_:8.1f}  "
              f"log-score {scores[type(model).__name__]:.3f}  inside 90 %: {inside:.3f}")  # fmt: skip
    normal = HeteroscedasticRegressor().fit(np.column_stack([columns, hours])[train], visits[train])
    rows = np.column_stack([columns, hours])[test]
    scores["normal"] = normal.predict_dist(rows).row_log_probs(visits[test]).mean()
    print(f"{'HeteroscedasticRegressor':28} log-score {scores['normal']:.3f} (a density, not a mass)")

    model = NegativeBinomialRegressor().fit(columns[train], visits[train], exposure=hours[train])
    print(model.summary())
    need = model.predict_dist([[1.0, 1.0, 0.5]], exposure=[8.0]).icdf(0.9)[0]
    print(f"A busy day of eight hours: room for {need:.0f} visits covers nine days out of ten.")
    assert scores["NegativeBinomialRegressor"] > scores["PoissonRegressor"] + 0.3
    assert abs(model.coef_[0] - 0.5) < 0.15
    assert abs(model.dispersion_ - 0.25) < 0.1


if __name__ == "__main__":
    main()
