"""A mixture of two normal laws: the class of every row is a latent, summed over and given back."""

import jax.numpy as jnp
import numpy as np

import tractable as tr
from tractable.distributions import Bernoulli, Beta, Normal
from tractable.programs import Flat


@tr.model
def mixture(y):
    share = tr.sample("share", Beta(5.0, 5.0))
    mu = tr.sample("mu", Flat("ordered", (2,)))  # a normal prior, cut to rising means
    tr.factor("prior of mu", Normal(jnp.zeros(2), 2.0).log_prob(mu))
    with tr.plate("row", len(y)):
        second = tr.sample("second", Bernoulli(share))
        tr.sample("y", Normal(mu[second], 1.0), obs=y)


def by_grid(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and deviations of share and means, and each row's chance of the second class, by summation."""
    share = np.linspace(0.02, 0.98, 49)
    low, high = np.linspace(-3.0, 0.0, 61), np.linspace(0.0, 3.0, 61)  # the density is nothing outside
    first, second = (-0.5 * (y - m[:, None]) ** 2 for m in (low, high))
    points = np.stack(np.meshgrid(share, low, high, indexing="ij"), -1).reshape((-1, 3))
    logs = 4 * np.log(points[:, 0]) + 4 * np.log1p(-points[:, 0]) - (points[:, 1:] ** 2).sum(1) / 8
    shape = (len(share), len(low), len(high))
    for a, b in zip(first.T, second.T):  # a row at a time
        terms = np.logaddexp(np.log1p(-share)[:, None, None] + a[None, :, None],
                             np.log(share)[:, None, None] + b[None, None, :])  # fmt: skip
        logs += np.broadcast_to(terms, shape).ravel()
    masses = np.exp(logs - np.logaddexp.reduce(logs))
    mean = masses @ points
    return mean, np.sqrt(masses @ (points - mean) ** 2)


def main() -> None:
    random = np.random.default_rng(0)
    second = random.random(80) < 0.4
    y = np.where(second, 1.6, -1.2) + random.normal(size=80)
    post = tr.infer(mixture, y, key=0)
    print(post.explain())
    print(post.summary(["share", "mu"]))

    mean, deviation = by_grid(y)
    found = np.concatenate([post["share"][..., None], post["mu"]], -1)
    errors = deviation / np.sqrt(found[..., 0].size / 3)  # draws that hang together count less
    assert post.verdict.ok
    assert (post.explain().before, post.explain().after) == (83, 3)
    assert np.all(abs(found.mean((0, 1)) - mean) < 4 * errors)
    assert np.all(abs(found.std((0, 1)) - deviation) < 4 * errors)
    assert abs((post["second"].mean((0, 1)) > 0.5) == second).mean() > 0.85


if __name__ == "__main__":
    main()
