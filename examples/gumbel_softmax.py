"""Learn which arm pays best by gradients through relaxed choices, colder and colder."""

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.distributions.gumbel import gumbel_max
from tractable.distributions.relaxed import Concrete, annealed_temperature, straight_through

REWARDS = jnp.array([0.2, 0.5, 0.9, 0.4])
STEPS = 200


def loss(logits, temperature, key):
    """Minus the mean reward of 64 hard choices; the gradient goes through their soft counterparts."""
    choices = straight_through(Concrete(logits, temperature).sample(key, (64,)))
    return -(choices @ REWARDS).mean()


@jax.jit
def learn(key):
    def step(logits, inputs):
        number, key = inputs
        temperature = annealed_temperature(number, STEPS, start=2.0, end=0.2)
        value, slope = jax.value_and_grad(loss)(logits, temperature, key)
        return logits - 2.0 * slope, -value

    return jax.lax.scan(step, jnp.zeros(4), (jnp.arange(STEPS), jr.split(key, STEPS)))


def main() -> None:
    logits, rewards = learn(jr.key(0))
    probs = jax.nn.softmax(logits)
    print("probability of each arm:", probs.round(3).tolist())
    print(
        f"mean reward: {rewards[:10].mean():.3f} in the first ten steps, {rewards[-10:].mean():.3f} at last"
    )
    assert probs.argmax() == REWARDS.argmax()
    assert probs.max() > 0.9
    assert rewards[-10:].mean() > rewards[:10].mean() + 0.2

    # The learned policy acts by Gumbel-max draws: the share of each arm is its probability.
    share = jnp.bincount(gumbel_max(jr.key(1), logits, (4000,)), length=4) / 4000
    error = jnp.sqrt(probs * (1 - probs) / 4000)
    assert (jnp.abs(share - probs) < 5 * error + 1e-3).all()


if __name__ == "__main__":
    main()
