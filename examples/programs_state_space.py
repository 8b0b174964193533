"""A local level as a program: the path of 300 levels is integrated, and only spreads remain."""

import jax.numpy as jnp
import numpy as np

import tractable as tr
from tractable.distributions import Gaussian, HalfNormal, LinearGaussian, Normal
from tractable.messages import GaussianChain


@tr.model
def level(y):
    drift = tr.sample("drift", HalfNormal(1.0))
    noise = tr.sample("noise", HalfNormal(1.0))
    start = tr.sample("start", Normal(0.0, 10.0))

    def step(x, reading):
        x = tr.sample("x", Normal(x, drift))
        tr.sample("y", Normal(x, noise), obs=reading)
        return x, None

    tr.scan("time", step, start, y)


def main() -> None:
    rng = np.random.default_rng(0)
    path = np.cumsum(0.3 * rng.normal(size=300))
    y = path + rng.normal(size=300)

    known = tr.infer(level.do({"drift": 0.3, "noise": 1.0}), y, key=0)
    chain = GaussianChain(
        Gaussian(jnp.zeros(1), jnp.array([[100.0 + 0.09]])),
        LinearGaussian(jnp.eye(1), jnp.zeros(1), jnp.array([[0.09]])),
        LinearGaussian(jnp.eye(1), jnp.zeros(1), jnp.eye(1)),
    )
    wanted = chain.smooth(y[:, None])
    assert known.explain().after == 0
    assert abs(float(known.log_evidence.value) - float(wanted.log_evidence)) < 1e-8
    error = np.sqrt(np.asarray(wanted.marginals.cov)[:, 0, 0] / known["start"].size)
    assert np.all(abs(known["x"].mean((0, 1)) - np.asarray(wanted.marginals.mean)[:, 0]) < 4.5 * error)

    post = tr.infer(level.do({"noise": 1.0}), y, key=0)
    print(post.explain())
    print(post.summary(["drift", "start"]))
    assert (post.explain().before, post.explain().after) == (302, 1)
    assert post.verdict.ok
    assert abs(post["drift"].mean() - 0.3) < 4 * post["drift"].std()


if __name__ == "__main__":
    main()
