"""Change of variables: known laws from simple ones, and a flow that learns a bent density from draws."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.bijections.coupling import Coupling
from tractable.bijections.elementwise import Affine, Exp, NegativeLog, Sigmoid
from tractable.bijections.support import unconstrain
from tractable.distributions.continuous import Logistic, Normal
from tractable.distributions.transformed import Transformed


def fit(model, rows, steps=5000, rate=0.05):
    """Maximum likelihood by plain gradient steps on the free numbers of any model."""
    real, rebuild = unconstrain(model)

    def step(u, _):
        value, slope = jax.value_and_grad(lambda v: -rebuild(v)[0].log_prob(rows).mean())(u)
        return u - rate * slope, value

    real, losses = jax.jit(lambda u: jax.lax.scan(step, u, None, length=steps))(real)
    return rebuild(real)[0], losses


def main() -> None:
    lognormal = Transformed(Normal(0.5, 0.3), Exp())
    assert np.isclose(lognormal.cdf(np.exp(0.5)), 0.5)
    assert np.isclose(lognormal.entropy(), 0.5 + Normal(0.5, 0.3).entropy())  # H[x] + E[x]

    # sigma(logistic) is uniform and -log(uniform) a standard exponential: a chain whose second map falls.
    exponential = Transformed(Logistic(0.0, 1.0), Sigmoid() >> NegativeLog())
    assert np.isclose(exponential.log_prob(2.0), -2.0)
    assert np.isclose(exponential.cdf(2.0), 1 - np.exp(-2.0))

    # A banana: the second coordinate is bent by the square of the first. One coupling can undo it.
    key_noise, key_flow = jr.split(jr.key(0))
    noise = jr.normal(key_noise, (500, 2))
    rows = jnp.stack([noise[:, 0], 0.5 * noise[:, 1] + noise[:, 0] ** 2], 1)
    bend = Coupling.random(key_flow, [True, False], width=16, depth=1)
    flow = Transformed(Normal(jnp.zeros(2), 1.0), bend >> Affine(jnp.zeros(2), 1.0))
    fitted, losses = fit(flow, rows)
    exact = -(
        Normal(jnp.zeros(2), 1.0).log_prob(noise) - jnp.log(0.5)
    ).mean()  # of the law that made the rows
    print(f"negative log-likelihood {losses[0]:.3f} -> {losses[-1]:.3f}; the true density has {exact:.3f}")
    assert losses[-1] < losses[0] - 0.5
    assert abs(losses[-1] - exact) < 0.1
    print("draws:", np.round(fitted.sample(jr.key(1), (2,)), 2), sep="\n")


if __name__ == "__main__":
    main()
