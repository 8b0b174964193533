"""A mixture fitted to a Dask array, where its rows are, beside the same fit in memory."""

import numpy as np

import tractable as tr
from tractable.inference import EM
from tractable.latent import GaussianMixture


def main() -> None:
    try:
        import dask.array as da
    except ImportError:
        print("Dask is not installed: pip install 'tractable[scale]'")
        return
    random = np.random.default_rng(0)
    rows = np.concatenate([random.normal(size=(3000, 2)), random.normal([3.0, 1.0], size=(2000, 2))])
    random.shuffle(rows)
    start = GaussianMixture([0.5, 0.5], [[0.0, 1.0], [2.0, 0.0]], np.stack([np.eye(2)] * 2))

    # with a cluster: client=Client("tcp://scheduler:8786"); by default the current client, or threads
    spread = tr.scale.fit(start, da.from_array(rows, chunks=(700, 2)), EM())
    memory = tr.fit(start, rows, EM())
    print(spread)
    print("means:", np.asarray(spread.state.means).round(3).tolist())
    print(f"evidence: {spread.values[-1]:.10f} in {spread.num_partitions} partitions")
    print(f"          {memory.values[-1]:.10f} in memory")
    assert np.allclose(spread.values, memory.values, rtol=1e-9)


if __name__ == "__main__":
    main()
