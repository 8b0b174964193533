"""Long memory: a token said again after a thousand blanks, learnt by convolution, recalled step by step."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.iterate import run
from tractable.neural import StateSpaceNetwork, predict_rows, train
from tractable.neural.memory_tasks import delayed_recall
from tractable.optim import Adam

DELAY, SYMBOLS = 1000, 4


class Last(eqx.Module):
    """What a network says in the end."""

    network: StateSpaceNetwork

    def __call__(self, x):
        return self.network(x)[-1]


def data(key, num: int):
    """Blanks are vectors of zeros."""
    tokens, wanted = delayed_recall(key, num, DELAY, SYMBOLS)
    return np.asarray(jax.nn.one_hot(tokens, SYMBOLS, dtype=jnp.float32)), np.asarray(wanted)


def cross_entropy(logits, token):
    return -jax.nn.log_softmax(logits)[token]


def main() -> None:
    rows, held = data(jr.key(0), 128), data(jr.key(1), 100)
    network = Last(StateSpaceNetwork(SYMBOLS, SYMBOLS, 8, blocks=1, pairs=4, tokens=False, key=jr.key(2)))
    trained = train(
        network, rows, cross_entropy, key=jr.key(3), method=Adam(0.02), batch=32, epochs=24, progress=False
    )
    said = np.asarray(predict_rows(trained.state, held[0]))
    right = (said.argmax(1) == held[1]).mean()
    print(f"after {DELAY} blanks {right:.0%} of the tokens are right; losses {trained.values.round(2)[::6]}")

    # decoding: one state of fixed size instead of the past
    decode = trained.state.network
    steps = eqx.filter_jit(
        lambda net, x: run(lambda state, row: net.step(state, row), net.start(), x).trace[-1]
    )
    apart = max(
        np.abs(np.asarray(steps(decode, jnp.asarray(x))) - y).max() for x, y in zip(held[0][:3], said)
    )
    size = sum(leaf.size for leaf in jax.tree.leaves(decode.start()))
    print(f"step by step the answers differ by {apart:.1e}; the state has {size} numbers")
    assert right > 0.95
    assert apart < 1e-3


if __name__ == "__main__":
    main()
