"""Make a network of digits smaller: prune, share, encode; the file loads back bit for bit."""

import tempfile
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable import datasets
from tractable.neural import (
    load_compressed,
    predict_rows,
    prune_weights,
    save_compressed,
    share_weights,
    train,
)
from tractable.neural.losses import cross_entropy
from tractable.optim import Adam


def main() -> None:
    seen, held = datasets.digits().split(0.25, seed=0)
    rows = jnp.asarray(seen.features / 16 - 0.5, jnp.float32), jnp.asarray(seen.target)

    def accuracy(network: object) -> float:
        outputs = predict_rows(network, (held.features / 16 - 0.5).astype(np.float32))
        return float(np.mean(np.asarray(outputs).argmax(1) == held.target))

    options = {"key": 1, "progress": False}
    network = eqx.nn.MLP(64, 10, 128, 2, key=jr.key(0), dtype=jnp.float32)
    network = train(network, rows, cross_entropy, epochs=15, **options).state
    pruned = train(prune_weights(network, 0.15), rows, cross_entropy, epochs=15, **options).state
    shared = share_weights(pruned, 16, key=jr.key(2))
    shared = train(shared, rows, cross_entropy, epochs=3, method=Adam(3e-4), **options).state
    with tempfile.TemporaryDirectory() as folder:
        size = save_compressed(Path(folder) / "digits", shared)
        loaded = load_compressed(Path(folder) / "digits", network)
    print(size)
    print(f"{size.ratio:.1f} times smaller; accuracy {accuracy(network):.3f}, then {accuracy(shared):.3f}")
    assert size.ratio > 10
    assert accuracy(loaded) == accuracy(shared) > accuracy(network) - 0.015


if __name__ == "__main__":
    main()
