"""Eight schools as a program: nine of ten unknowns are integrated, one is left for quadrature."""

import numpy as np

import tractable as tr
from tractable.distributions import HalfCauchy, Normal

ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])


@tr.model
def schools(sigma, y=None):
    mu = tr.sample("mu", Normal(0.0, 5.0))
    tau = tr.sample("tau", HalfCauchy(5.0))
    with tr.plate("school", len(sigma)):
        theta = tr.sample("theta", Normal(mu, tau))
        tr.sample("y", Normal(theta, sigma), obs=y)


def by_hand() -> tuple[float, float]:
    """Means of mu and tau on a grid of tau = 5 tan(angle), whose prior is even in the angle."""
    tau = 5 * np.tan((np.arange(20_000) + 0.5) / 20_000 * np.pi / 2)
    variances = ERRORS**2 + tau[:, None] ** 2
    precision = 1 / 25 + (1 / variances).sum(1)
    mean = (EFFECTS / variances).sum(1) / precision
    log_p = -0.5 * (np.log(variances) + EFFECTS**2 / variances).sum(1)
    log_p += 0.5 * (precision * mean**2 - np.log(precision))
    weights = np.exp(log_p - log_p.max())
    return float(np.average(mean, weights=weights)), float(np.average(tau, weights=weights))


def main() -> None:
    post = tr.infer(schools, ERRORS, y=EFFECTS, key=0)
    print(post.explain())
    print(post.summary(["mu", "tau"]))
    means = post["mu"].mean(), post["tau"].mean()
    wanted = by_hand()
    assert post.explain().after == 1
    assert post.verdict.ok
    assert abs(means[0] - wanted[0]) < 4 * post["mu"].std() / np.sqrt(post["mu"].size)
    assert abs(means[1] - wanted[1]) < 4 * post["tau"].std() / np.sqrt(post["tau"].size)


if __name__ == "__main__":
    main()
