"""A hidden Markov model as a program: states are summed over along the chain, and come back as draws."""

import jax.numpy as jnp
import numpy as np

import tractable as tr
from tractable.distributions import Categorical, Normal

MOVES, MEANS = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([-1.0, 1.0])


@tr.model
def chain(y):
    state = tr.sample("first", Categorical(np.array([0.5, 0.5])))
    tr.sample("y_first", Normal(jnp.asarray(MEANS)[state], 1.0), obs=y[0])

    def step(state, reading):
        state = tr.sample("state", Categorical(jnp.asarray(MOVES)[state]))
        tr.sample("y", Normal(jnp.asarray(MEANS)[state], 1.0), obs=reading)
        return state, None

    tr.scan("time", step, state, y[1:])


def by_hand(y: np.ndarray) -> tuple[float, np.ndarray]:
    """The evidence, and the chance of the second state at each time."""
    seen = np.exp(-0.5 * (y[:, None] - MEANS) ** 2) / np.sqrt(2 * np.pi)
    forward, backward = [np.full(2, 0.5) * seen[0]], [np.ones(2)]
    for now in seen[1:]:
        forward.append(forward[-1] @ MOVES * now)
    for later in seen[:0:-1]:
        backward.append(MOVES @ (later * backward[-1]))
    joint = np.array(forward) * np.array(backward[::-1])
    return float(np.log(joint[0].sum())), joint[:, 1] / joint.sum(1)


def main() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([-1.0, 1.0, -1.0], 20) + rng.normal(size=60)
    post = tr.infer(chain, y, key=0)
    print(post.explain())
    log_evidence, wanted = by_hand(y)
    share = np.concatenate([post["first"].mean()[None], post["state"].mean((0, 1))])
    assert post.explain().after == 0
    assert post.verdict.ok
    assert abs(float(post.log_evidence.value) - log_evidence) < 1e-9
    draws = post["first"].size
    assert np.all(abs(share - wanted) < 4.5 * (np.sqrt(wanted * (1 - wanted) / draws) + 1 / draws))


if __name__ == "__main__":
    main()
