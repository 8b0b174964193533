"""Eight schools, non-centred: NUTS against the reference posterior means, stopped half-way and resumed."""

import tempfile
from pathlib import Path

import jax.numpy as jnp
import jax.random as jr

import tractable as tr
from tractable.core.support import positive

EFFECTS = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
START = {"mu": 0.0, "tau": 1.0, "z": jnp.zeros(8)}


def log_density(x):
    theta = x["mu"] + x["tau"] * x["z"]
    prior = -0.5 * (x["mu"] / 5) ** 2 - jnp.log1p((x["tau"] / 5) ** 2) - 0.5 * jnp.sum(x["z"] ** 2)
    return prior - 0.5 * jnp.sum(((EFFECTS - theta) / ERRORS) ** 2)


def main():
    post = tr.mcmc(log_density, START, key=jr.key(0), num_draws=500, supports={"tau": positive})
    path = Path(tempfile.mkdtemp()) / "half"
    post.save(path)
    post = tr.resume(path, log_density)
    theta = post.map(lambda x: {"theta": x["mu"] + x["tau"] * x["z"]})
    print(post)
    print(theta.summary())
    assert post.num_draws == 1000
    assert post.verdict.ok
    # long runs give E[mu] = 4.40, E[tau] = 3.60, E[theta_1] = 6.15
    table = post.summary()
    for name, mean in (("mu", 4.40), ("tau", 3.60)):
        assert abs(table.loc[name, "mean"] - mean) < 4 * table.loc[name, "mcse"] + 0.03
    assert abs(theta.summary().loc["theta[0]", "mean"] - 6.15) < 0.5


if __name__ == "__main__":
    main()
