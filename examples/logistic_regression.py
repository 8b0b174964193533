"""Logistic regression from odds ratios to honest probabilities: fits, separation, evidence, moderation."""

import numpy as np

from tractable.supervised import SeparatedDataError, fit_bayes_logistic, fit_logistic, fit_probit
from tractable.supervised.logistic.bayes_variational import variational_logistic


def make_rows(num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    dose, age = generator.normal(size=num_rows), 40 + 12 * generator.normal(size=num_rows)
    log_odds = 1.2 * dose - 0.05 * (age - 40)
    return np.column_stack([dose, age]), (log_odds + generator.logistic(size=num_rows) > 0).astype(int)


def main() -> None:
    X, y = make_rows(400)
    fitted = fit_logistic(X, y)
    print(fitted, fitted.odds_ratios(names=["dose", "age"]), sep="\n")
    truth = np.array([1.2, -0.05])
    assert (np.abs(np.asarray(fitted.coefficients) - truth) < 4 * np.asarray(fitted.standard_errors)).all()

    probit = fit_probit(X, y)
    print("probit over logistic:", np.asarray(probit.coefficients) / np.asarray(fitted.coefficients))

    few, labels = X[:6], (X[:6, 0] > 0).astype(int)
    message = ""
    try:
        fit_logistic(few, labels, names=["dose", "age"])
    except SeparatedDataError as error:
        message = str(error)
    print(message)
    assert "dose" in message

    posterior, bound = fit_bayes_logistic(X, y), variational_logistic(X, y)
    print(posterior, bound, sep="\n")
    assert float(bound.log_evidence) < float(posterior.log_evidence) + 0.1

    small = fit_bayes_logistic(X[:25], y[:25])
    far = np.array([[8.0, 40.0]])
    mean, _ = small.log_odds(far)
    plain, honest = 1 / (1 + np.exp(-mean[0])), small.predict_proba(far)[0]
    print(f"far from 25 rows: plain {plain:.4f}, averaged over the posterior {honest:.4f}")
    assert 0.5 < honest < plain


if __name__ == "__main__":
    main()
