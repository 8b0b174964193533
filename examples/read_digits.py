"""Handwritten digits: a network stopped by held-out rows, and what it takes for what."""

import jax.random as jr
import numpy as np
from sklearn.datasets import load_digits

from tractable.neural import MLP, cross_entropy, predict_rows, train
from tractable.optim import Adam
from tractable.supervised.selection.losses import confusion_matrix

images, digits = load_digits(return_X_y=True)
images, order = images / 16, np.random.default_rng(0).permutation(len(digits))
fit, held, test = order[:1100], order[1100:1300], order[1300:]

network = MLP((64, 100, 10), key=jr.key(0))
run = train(
    network, (images[fit], digits[fit]), cross_entropy, key=jr.key(1), method=Adam(3e-3), epochs=60,
    validation=(images[held], digits[held]), patience=5,
)  # fmt: skip
print(run.verdict.sentence)
print(f"epoch {int(run.best_epoch)} of {int(run.num_steps)}: held-out loss {run.trace.validation.min():.3f}")

found = np.argmax(predict_rows(run.state, images[test]), axis=1)
counts = confusion_matrix(digits[test], found)
print(counts.astype(int))
accuracy = np.trace(counts) / counts.sum()
print(f"{network.num_parameters} numbers, {accuracy:.1%} of {len(test)} test images right")
assert accuracy > 0.95
