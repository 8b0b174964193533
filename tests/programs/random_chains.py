"""Random chains for random programs: walks, walks of pairs and of second order, hidden Markov models."""

import jax.numpy as jnp
import numpy as np

from tractable.distributions import Categorical, Gaussian, Normal
from tractable.programs import sample, scan


def walk(writer):
    """A normal walk whose start and level may be latent, read at each step or later; perhaps of second
    order."""
    name, seen, around = writer.name("x"), writer.name("y"), writer.name("walk")
    start, level = writer.real("one", 1), writer.real("one", 1)
    scale, noise = writer.positive("one"), writer.positive("one")
    keep, before, read = writer.rng.uniform(0.3, 1.1), writer.pick([0.0, 0.0, -0.4]), writer.chance(0.6)
    ys = writer.given(writer.rng.normal(size=writer.shapes["step"]))

    def statement(env):
        first = jnp.asarray(start(env), float)
        mid, spread, around_mid = level(env), scale(env), noise(env)

        def step(carry, given):
            moved, y = given
            x = sample(name, Normal(keep * carry[0] + before * carry[1] + 0.2 * mid + moved, spread))
            if read:
                sample(seen, Normal(1.5 * x - mid, around_mid), obs=y)
            return (x, carry[0]), x - carry[0]

        (env[f"{name} last"], _), env[f"{name} steps"] = scan(
            around, step, (first, first), (env["inputs"], ys(env))
        )

    writer.statements.append(statement)
    writer.reals["one"].append(lambda env: env[f"{name} last"])
    writer.reals["step"].append(lambda env: env[f"{name} steps"])


def pair_walk(writer):
    """A linear-Gaussian state of two numbers, of which one is read."""
    name, seen, around = writer.name("v"), writer.name("y"), writer.name("walk")
    turn, root = 0.6 * writer.rng.normal(size=(2, 2)), writer.rng.normal(size=(2, 2))
    cov, scale = writer.given(root @ root.T + 0.3 * np.eye(2)), writer.positive("one")
    ys = writer.given(writer.rng.normal(size=writer.shapes["step"]))

    def statement(env):
        spread = scale(env)

        def step(x, y):
            x = sample(name, Gaussian(turn @ x, cov(env)))
            sample(seen, Normal(x[0], spread), obs=y)
            return x, x[1]

        env[f"{name} last"], env[f"{name} steps"] = scan(around, step, jnp.zeros(2), ys(env))

    writer.statements.append(statement)
    writer.reals["pair"].append(lambda env: env[f"{name} last"])
    writer.reals["step"].append(lambda env: env[f"{name} steps"])


def hidden_markov(writer):
    """A Markov chain of labels, read through a normal with the mean and perhaps the last reading of each."""
    name, seen, around, card = (
        writer.name("z"),
        writer.name("y"),
        writer.name("chain"),
        writer.pick([2, 2, 3]),
    )
    if not writer.fits(card, writer.shapes["step"][0]):
        return
    start, parts = writer.whole("one"), [writer.real("one", 0) for _ in range(card)]
    table, scale = writer.given(writer.rng.normal(size=(card, card))), writer.positive("one")
    ys = writer.given(writer.rng.normal(size=writer.shapes["step"]))
    memory = writer.pick([0.0, 0.5])

    def statement(env):
        means, spread = jnp.stack([part(env) for part in parts]), scale(env)
        first = jnp.zeros((), int) if start is None or start[1] > card else jnp.asarray(start[0](env), int)

        def step(carry, y):
            z = sample(name, Categorical(logits=table(env)[carry[0]]))
            sample(seen, Normal(means[z] + memory * z * carry[1], spread), obs=y)
            return (z, y), z

        _, env[f"{name} steps"] = scan(around, step, (first, jnp.zeros(())), ys(env))

    writer.statements.append(statement)
    writer.wholes["step"].append((lambda env: env[f"{name} steps"], card))


def two_chains(writer):
    """Two chains of labels that are read together."""
    names, seen, around = [writer.name("z"), writer.name("z")], writer.name("y"), writer.name("chain")
    if not writer.fits(4, writer.shapes["step"][0]):
        return
    tables, means = (
        writer.given(writer.rng.normal(size=(2, 2, 2))),
        writer.given(writer.rng.normal(size=(2, 2))),
    )
    ys, scale = writer.given(writer.rng.normal(size=writer.shapes["step"])), writer.positive("one")

    def statement(env):
        spread = scale(env)

        def step(carry, y):
            z = [sample(n, Categorical(logits=tables(env)[i][carry[i]])) for i, n in enumerate(names)]
            sample(seen, Normal(means(env)[z[0], z[1]], spread), obs=y)
            return tuple(z), None

        scan(around, step, (jnp.zeros((), int),) * 2, ys(env))

    writer.statements.append(statement)
