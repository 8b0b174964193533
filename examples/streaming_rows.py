"""Least squares on a Parquet file that is never in memory as a whole: sums over chunks, then one solve."""

import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd

from tractable.core.chunks import chunks, sum_over_chunks
from tractable.core.linalg import psd_solve


def write_table(path: Path, num_rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, 2))
    y = 1.0 + x @ [2.0, -3.0] + 0.1 * rng.normal(size=num_rows)
    table = pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "y": y, "count": rng.integers(1, 4, num_rows)})
    table.to_parquet(path, row_group_size=10_000)
    return table


def normal_equations(rows, weights):
    """Sums over rows; a row of weight zero (the padding of the last chunk) adds nothing."""
    x = jnp.column_stack([jnp.ones(len(rows)), rows[:, :2]])
    weighted = weights[:, None] * x
    return {"gram": weighted.T @ x, "moment": weighted.T @ rows[:, 2], "count": weights.sum()}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        table = write_table(path, 50_003)
        parts = chunks(path, 4096, columns=["x1", "x2", "y"], weights="count")
        total = sum_over_chunks(normal_equations, parts)
    coefficients = psd_solve(total["gram"], total["moment"])
    print(
        "rows, counted with their weights:", int(total["count"]), " coefficients:", np.asarray(coefficients)
    )

    repeated = table.loc[table.index.repeat(table["count"])]
    design = np.column_stack([np.ones(len(repeated)), repeated[["x1", "x2"]]])
    in_memory = np.linalg.lstsq(design, repeated["y"].to_numpy(), rcond=None)[0]
    assert int(total["count"]) == len(repeated)
    assert np.allclose(coefficients, in_memory, rtol=1e-10)
    assert np.allclose(coefficients, [1.0, 2.0, -3.0], atol=0.01)


if __name__ == "__main__":
    main()
