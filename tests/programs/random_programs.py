"""Random small programs, by seed: discrete and Gaussian latents, plates, chains, gathers, mixtures.

A program is a list of statements; each adds sites and, to pools by shape, what it sampled, of which later
statements make their parameters.

`python -m tests.programs.random_programs 300` compares so many of them with brute force.
"""

import sys
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np

from tests.programs import random_chains
from tests.programs.random_expressions import Expressions
from tractable.distributions import (
    Bernoulli,
    Categorical,
    Dirichlet,
    DiscreteUniform,
    Gamma,
    Gaussian,
    HalfNormal,
    Normal,
    Poisson,
)
from tractable.programs import Flat, deterministic, factor, model, sample

MOST = 256  # assignments of the discrete latents


class Writer(Expressions):
    """Statements, one after the other; each makes a site or more, and adds to the pools of expressions."""

    def site(self, name, kind, law, obs=None):
        around = self.places(kind)

        def statement(env):
            with around():
                env[name] = sample(name, law(env), None if obs is None else obs(env))

        self.statements.append(statement)

    def normal(self):
        kind, name = self.kind("one", "one", "group", "row", "cell"), self.name("x")
        loc, scale = self.real(kind), self.positive(kind)
        self.site(name, kind, lambda env: Normal(loc(env), scale(env)))
        self.reals[kind].append(lambda env: env[name])

    def vector(self):
        """A pair, or a pair for each group, whose mean may hold other latents."""
        kind, name = self.kind("one", "group"), self.name("v")
        parts = [self.real(kind, 1) for _ in range(2)]
        root = self.rng.normal(size=(2, 2))
        cov = self.given(root @ root.T + 0.3 * np.eye(2))
        scale = self.pick(self.positives) if self.positives and self.chance(0.5) else None

        def law(env):
            spread = cov(env) if scale is None else cov(env) * scale(env) ** 2
            mean = jnp.stack([part(env) for part in parts], -1)
            return Gaussian(mean, jnp.broadcast_to(spread, (*mean.shape[:-1], 2, 2)))

        self.site(name, kind, law)
        self.reals["pair" if kind == "one" else "pairs"].append(lambda env: env[name])

    def scale(self):
        name, law = self.name("s"), self.pick([HalfNormal(1.5), Gamma(3.0, 2.0)])
        self.site(name, "one", lambda env: law)
        self.positives.append(lambda env: env[name])

    def shares(self):
        name, card = self.name("w"), self.pick([2, 3])
        self.site(name, "one", lambda env: Dirichlet(jnp.full(card, 2.0)))
        self.weights[card] = lambda env: env[name]

    def flat(self):
        """A latent without a prior, and a reading of it."""
        name, seen = self.name("f"), self.name("y")
        scale, y = self.positive("one"), self.given(self.rng.normal())
        self.site(name, "one", lambda env: Flat())
        self.site(seen, "one", lambda env: Normal(2.0 * env[name], scale(env)), y)
        self.reals["one"].append(lambda env: env[name])

    def fits(self, card, size):
        if self.assignments * card**size > MOST:
            return False
        self.assignments *= card**size
        return True

    def discrete(self):
        kind, card, name = self.kind("one", "group", "row", "cell"), self.pick([2, 2, 3]), self.name("z")
        if not self.fits(card, int(np.prod(self.shapes[kind]))):
            return
        logits, low = self.logits(kind, card), 0
        turn = self.rng.random()
        if card == 2 and turn < 0.4:
            self.site(name, kind, lambda env: Bernoulli(logits=logits(env)[..., 1]))
        elif turn > 0.85:
            low = 1
            self.site(name, kind, lambda env: DiscreteUniform(1.0, float(card)))
        else:
            self.site(name, kind, lambda env: Categorical(logits=logits(env)))
        self.wholes[kind].append((lambda env: env[name] - low, card))

    def reading(self):
        kind, name = self.kind(), self.name("y")
        loc, scale = self.real(kind), self.positive(kind)
        y = self.given(self.rng.normal(size=self.shapes[kind]))
        self.site(name, kind, lambda env: Normal(loc(env), scale(env)), y)

    def pair_reading(self):
        name, parts = self.name("y"), [self.real("row", 1), self.real("row", 1)]
        cov, y = (
            self.given([[1.0, 0.4], [0.4, 0.7]]),
            self.given(self.rng.normal(size=(*self.shapes["row"], 2))),
        )
        self.site(name, "row", lambda env: Gaussian(jnp.stack([p(env) for p in parts], -1), cov(env)), y)

    def label(self):
        kind, card, name = self.kind("one", "group", "row", "cell"), self.pick([2, 3]), self.name("y")
        logits, y = self.logits(kind, card), self.given(self.rng.integers(card, size=self.shapes[kind]))
        self.site(name, kind, lambda env: Categorical(logits=logits(env)), y)

    def tally(self):
        name, rate = self.name("y"), self.real("row", 1)
        y = self.given(self.rng.integers(4, size=self.shapes["row"]))
        self.site(name, "row", lambda env: Poisson(jnp.exp(0.4 * rate(env))), y)

    def weigh(self):
        """A factor, of discrete latents where there are some; else one that is not Gaussian."""
        name, kind = self.name("factor"), self.kind("one", "row")
        table = self.table_of_reals(kind)
        table = self.real(kind, 1) if table is None else table
        self.statements.append(lambda env: factor(name, jnp.tanh(table(env))))

    def derived(self):
        name, kind = self.name("d"), self.kind("one", "row")
        inner = self.real(kind)
        self.statements.append(lambda env: env.update({name: deterministic(name, inner(env))}))
        self.reals[kind].append(lambda env: env[name])


_LATENTS = [
    *[Writer.normal] * 6,
    *[Writer.vector] * 3,
    *[Writer.scale] * 3,
    *[Writer.discrete] * 6,
    Writer.shares,
    Writer.flat,
    Writer.derived,
    random_chains.walk,
    random_chains.walk,
    random_chains.pair_walk,
    random_chains.hidden_markov,
    random_chains.two_chains,
]
_READINGS = [
    *[Writer.reading] * 8,
    *[Writer.pair_reading] * 2,
    *[Writer.label] * 2,
    Writer.tally,
    Writer.weigh,
]


def random_program(seed):
    """A program with its data, of two to five statements about latents and one to three about readings."""
    writer = Writer(seed)
    writer.scale()
    for _ in range(writer.rng.integers(2, 6)):
        writer.pick(_LATENTS)(writer)
    for _ in range(writer.rng.integers(1, 4)):
        writer.pick(_READINGS)(writer)

    @model
    def program(data):
        env = dict(data)
        for statement in writer.statements:
            statement(env)

    return program.bind(writer.data), writer.rng


def study(count, first=0):
    """How many programs agree with brute force; each that does not, by its seed."""
    from tests.programs.brute_force import compare

    kinds, wrong = Counter(), []
    for seed in range(first, first + count):
        try:
            kinds[compare(*random_program(seed), sparse=seed % 2 == 1).kind] += 1
        except Exception as error:
            wrong.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:600]}", flush=True)
        if seed % 10 == 9:
            jax.clear_caches()
            print(f"{seed + 1 - first} of {count}: {len(wrong)} disagree", flush=True)
    print(f"{count} programs from {first}: {dict(kinds)}; {len(wrong)} disagree: {wrong}", flush=True)
    return wrong


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    study(*map(int, sys.argv[1:]))
