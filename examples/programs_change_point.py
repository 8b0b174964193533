"""A change point as a program: the year in which a rate fell is summed over."""

import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

import tractable as tr
from tractable.distributions import Categorical, Gamma, Poisson


@tr.model
def accidents(counts):
    years = len(counts)
    last = tr.sample("last", Categorical(np.full(years - 1, 1 / (years - 1))))
    before, after = tr.sample("before", Gamma(2.0, 1.0)), tr.sample("after", Gamma(2.0, 1.0))
    with tr.plate("year", years) as year:
        tr.sample("counts", Poisson(jnp.where(year <= last, before, after)), obs=counts)


def by_hand(counts: np.ndarray) -> tuple[float, np.ndarray]:
    """The evidence and the chance of each place: with a place given, the later rate is conjugate."""
    years = np.arange(1, len(counts))
    early, late = np.cumsum(counts)[:-1], np.cumsum(counts[::-1])[-2::-1]
    log_joint = -np.log(len(years)) - gammaln(counts + 1).sum() + early * np.log(3.0) - 3.0 * years
    log_joint += gammaln(2 + late) - (2 + late) * np.log(1 + years[::-1])
    log_evidence = np.logaddexp.reduce(log_joint)
    return float(log_evidence), np.exp(log_joint - log_evidence)


def main() -> None:
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.where(np.arange(40) < 16, 3.0, 1.0))
    post = tr.infer(accidents.do({"before": 3.0}), counts, key=0)  # the earlier rate is on record
    print(post.explain())
    print(post.summary())

    log_evidence, wanted = by_hand(counts)
    draws = post["last"].size
    shares = np.bincount(post["last"].reshape(-1), minlength=39) / draws
    assert post.explain().after == 1  # the later rate
    assert abs(float(post.log_evidence.value) - log_evidence) < 1e-6
    assert np.all(abs(shares - wanted) < 4.5 * (np.sqrt(wanted * (1 - wanted) / draws) + 1 / draws))


if __name__ == "__main__":
    main()
