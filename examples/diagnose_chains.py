"""A Metropolis chain too timid, one stuck in two modes, and one that is right: the verdict tells which."""

import numpy as np

from tractable.inference import Info, enough
from tractable.inference.chains.posterior import ChainPosterior
from tractable.inference.trust.stopping import plateau


def log_density(x, gap):
    """Two unit Gaussians at -gap and +gap."""
    return np.logaddexp(-0.5 * (x - gap) ** 2, -0.5 * (x + gap) ** 2)


def chains(gap, scale, starts, num_draws, seed):
    """Random-walk Metropolis of several chains at once, with its records."""
    rng = np.random.default_rng(seed)
    x, draws, logs, rates = np.array(starts, float), [], [], []
    for _ in range(num_draws):
        proposal = x + scale * rng.normal(size=x.size)
        rate = np.exp(np.minimum(log_density(proposal, gap) - log_density(x, gap), 0.0))
        x = np.where(rng.random(x.size) < rate, proposal, x)
        draws.append(x)
        logs.append(log_density(x, gap))
        rates.append(rate)
    draws, logs, rates = (np.stack(values, 1) for values in (draws, logs, rates))
    return ChainPosterior({"x": draws}, logs, Info(rates, np.ones(draws.shape)))


def main() -> None:
    starts = (-8, -3, 3, 8)
    timid = chains(gap=1.0, scale=0.05, starts=starts, num_draws=2000, seed=0)
    apart = chains(gap=6.0, scale=1.5, starts=starts, num_draws=2000, seed=1)
    right = chains(gap=1.0, scale=3.5, starts=starts, num_draws=4000, seed=2)
    for name, post in (("timid", timid), ("apart", apart), ("right", right)):
        print(f"{name}: {post.verdict.sentence}")
    print(right.summary())

    assert "still moving" in timid.verdict.sentence
    assert "separate modes" in apart.verdict.sentence
    assert right.verdict.ok
    assert plateau(right.log_density).settled
    assert enough(right.draws, effective_size=400)
    second = right.expectation(lambda draw: draw["x"] ** 2)
    print("E[x^2] =", second)
    assert abs(second.value - 2.0) < 4 * second.standard_error  # 1 + gap^2


if __name__ == "__main__":
    main()
