"""A network that says what it does not know, and hands such rows over to a person."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.neural import hand_over, weight_posterior

numbers = np.random.default_rng(0)


def swings(count):
    """A pendulum's angle and speed, and whether it goes over the top; the speed is read with an error."""
    states = numbers.uniform(-3, 3, (count, 2))
    energy = 0.5 * (states[:, 1] + 0.3 * numbers.normal(size=count)) ** 2 + 1 - np.cos(states[:, 0])
    return states, (energy > 2).astype(float)


network = eqx.nn.MLP(2, 1, 8, 1, activation=jnp.tanh, key=jr.key(0))
post = weight_posterior(network, swings(150), key=1, likelihood="classes")
print(post.verdict)

held, answers = swings(300)
rule = hand_over(post, held, answers, risk=0.03)
new, truth = swings(300)
acts, wrong = rule.acts(new), post.predict(new).probs.argmax(1) != truth
print(f"acts on {acts.mean():.0%}: {wrong[acts].mean():.1%} wrong, {wrong[~acts].mean():.1%} of the others")

assert post.verdict.ok
assert wrong[acts].mean() < 0.06 < wrong[~acts].mean()
