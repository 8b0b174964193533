"""XOR: two layers learn what no line can, and backpropagation shows what each number is for."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.neural import MLP, backpropagate, cross_entropy, predict_rows, train
from tractable.optim import Adam

inputs = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
targets = np.array([0, 1, 1, 0])

for sizes in ((2, 2), (2, 8, 2)):
    network = MLP(sizes, "tanh", key=jr.key(1))
    options = {"method": Adam(0.05), "batch": 4, "epochs": 300}
    run = train(network, (inputs, targets), cross_entropy, key=jr.key(0), **options)
    classes = np.argmax(predict_rows(run.state, inputs), axis=1)
    print(f"{sizes}: {network.num_parameters} numbers, mean loss {run.trace[-1]:.4f}, classes {classes}")

assert (classes == targets).all()

back = backpropagate(run.state, jnp.array([0.0, 1.0]), 1, cross_entropy)
print("slopes by the hidden neurons:", np.round(back.deltas[0], 5))
assert float(jnp.abs(back.deltas[0]).max()) < 0.05  # at the minimum nothing is left to learn
