"""A messy file: decimal commas, an old encoding, gaps, an identifier, a leak; described, encoded, judged."""

import tempfile
from pathlib import Path

import numpy as np

import tractable as tr
from tractable.estimators import BayesianLinearRegressor

TOWNS = ("Köln", "Düsseldorf", "Bonn", "Ulm")
CONDITIONS = ("poor", "fair", "good")


def messy(path: Path, rows: int = 400) -> None:
    """Flats whose price depends on size, town, condition and month; a tax that is known after the sale."""
    rng = np.random.default_rng(0)
    lines = ["id;town;size;condition;sold;tax;price"]
    for k in range(rows):
        town, condition, day, month = (int(rng.integers(0, top)) for top in (4, 3, 28, 12))
        size = rng.normal(80, 20)
        price = 3 * size + 40 * town + 20 * condition + 10 * np.sin(month / 2) + rng.normal(0, 15)
        shown = "" if rng.uniform() < 0.1 else f"{size:.1f}"
        numbers = [number.replace(".", ",") for number in (shown, f"{0.05 * price:.3f}", f"{price:.1f}")]
        date = f"{day + 1:02d}.{month + 1:02d}.2024"
        cells = (str(k + 1), TOWNS[town], numbers[0], CONDITIONS[condition], date, *numbers[1:])
        lines.append(";".join(cells))
    path.write_text("\n".join(lines), encoding="latin-1")


def main() -> None:
    path = Path(tempfile.mkdtemp()) / "flats.csv"
    messy(path)
    table = tr.tables.read_table(path)
    found = tr.tables.describe_table(table, target="price")
    print(found)
    codes = found.codes()
    assert codes["identifier"] == ["id"]
    assert codes["leak"] == ["tax"]
    assert found.column("condition").levels == CONDITIONS

    found = tr.tables.describe_table(table, target="price", drop=["tax"])
    train, test = table.iloc[:300], table.iloc[300:]
    encoder = tr.tables.TableEncoder(found, form="linear").fit(train, train["price"])
    print("\n", ", ".join(encoder.feature_names_), sep="")
    model = BayesianLinearRegressor().fit(encoder.transform(train), train["price"].to_numpy())
    score = model.score(encoder.transform(test), test["price"].to_numpy())
    print(f"\nR2 on rows that were not seen: {score:.3f}")
    assert score > 0.8

    strange = test.iloc[:3].assign(size=[80.0, 800.0, 80.0], town=["Ulm", "Ulm", "Paris"])
    print("unlike the training rows:", encoder.unlike(strange))
    assert encoder.unlike(strange).tolist() == [False, True, True]


if __name__ == "__main__":
    main()
