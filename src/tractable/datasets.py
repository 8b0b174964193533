"""Small tables with their column names: bundled real ones, public facts, seeded generators; small networks.
No downloads."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.core.host_random import generator
from tractable.graphs.bundled import network

__all__ = [
    "Table",
    "blobs",
    "breast_cancer",
    "diabetes",
    "digits",
    "eight_schools",
    "iris",
    "network",
    "noisy_line",
    "noisy_sinusoid",
    "ridge_experiment",
    "s_curve",
    "swiss_roll",
    "two_moons",
    "wine",
]


@dataclass(frozen=True)
class Table:
    """Rows of features with one target per row."""

    name: str
    features: np.ndarray
    target: np.ndarray
    feature_names: tuple[str, ...]
    target_name: str

    def __len__(self) -> int:
        return len(self.target)

    def split(self, test_fraction: float = 0.25, seed: int = 0) -> tuple["Table", "Table"]:
        """Two disjoint tables: rows to learn from, and rows held out."""
        check(0 < test_fraction < 1, "test_fraction", "between 0 and 1", test_fraction)
        order = generator(seed).permutation(len(self))
        held_out = round(test_fraction * len(self))
        return self.rows(order[held_out:]), self.rows(order[:held_out])

    def rows(self, index: np.ndarray) -> "Table":
        """The table with the chosen rows only."""
        return Table(
            self.name, self.features[index], self.target[index], self.feature_names, self.target_name
        )


def _bundled(name: str, target_name: str) -> Table:
    from sklearn import datasets

    bunch: Any = getattr(datasets, f"load_{name}")()
    return Table(name, bunch.data, bunch.target, tuple(str(n) for n in bunch.feature_names), target_name)


def diabetes() -> Table:
    """442 patients: ten measurements in their own units, and the progression of the disease a year later."""
    names = (
        "age",
        "sex",
        "bmi",
        "pressure",
        "cholesterol",
        "ldl",
        "hdl",
        "ratio",
        "triglycerides",
        "glucose",
    )
    features, target = _diabetes_arrays()
    return Table("diabetes", features, target, names, "progression")


def _diabetes_arrays() -> tuple[np.ndarray, np.ndarray]:
    """The two files of the table, read in a moment: importing scikit-learn for them takes seconds."""
    spec = find_spec("sklearn")
    folder = Path(spec.origin or "").parent / "datasets" / "data" if spec is not None else Path()
    files = folder / "diabetes_data_raw.csv.gz", folder / "diabetes_target.csv.gz"
    if all(file.is_file() for file in files):
        return np.loadtxt(files[0]), np.loadtxt(files[1])
    from sklearn import datasets

    bunch: Any = datasets.load_diabetes(scaled=False)
    return bunch.data, bunch.target


def iris() -> Table:
    """150 flowers of three species: lengths and widths of sepal and petal."""
    return _bundled("iris", "species")


def wine() -> Table:
    """178 wines of three growers: thirteen chemical measurements."""
    return _bundled("wine", "grower")


def breast_cancer() -> Table:
    """569 tumours: thirty measurements of cell nuclei, and whether the tumour was benign."""
    return _bundled("breast_cancer", "benign")


def digits() -> Table:
    """1,797 handwritten digits of 8 x 8 grey values."""
    return _bundled("digits", "digit")


def eight_schools() -> Table:
    """Estimated effects of coaching in eight schools; their standard errors are the feature (Rubin 1981)."""
    effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    return Table("eight_schools", errors[:, None], effects, ("standard_error",), "effect")


def noisy_line(num_rows: int = 100, noise: float = 0.3, seed: int = 0) -> Table:
    r"""$y = 1 + 2x + \epsilon$ with $x$ uniform on $[-1, 1]$ and $\epsilon \sim N(0, \mathrm{noise}^2)$."""
    numbers = generator(seed)
    x = numbers.uniform(-1, 1, num_rows)
    return Table("noisy_line", x[:, None], 1 + 2 * x + noise * numbers.normal(size=num_rows), ("x",), "y")


def noisy_sinusoid(num_rows: int = 25, noise: float = 0.3, seed: int = 0) -> Table:
    r"""$y = \sin(2\pi x) + \epsilon$ with $x$ uniform on $[0, 1]$ and $\epsilon \sim N(0, \mathrm{noise}^2)$.

    The true conditional is $N(\sin 2\pi x, \mathrm{noise}^2)$: the band that a good fit shows.
    """
    numbers = generator(seed)
    x = numbers.uniform(0, 1, num_rows)
    target = np.sin(2 * np.pi * x) + noise * numbers.normal(size=num_rows)
    return Table("noisy_sinusoid", x[:, None], target, ("x",), "y")


def ridge_experiment(
    num_sets: int = 100, num_rows: int = 25, num_bases: int = 24, noise: float = 0.3, seed: int = 0
) -> tuple[list[Table], np.ndarray, float]:
    """Many noisy sinusoids, and the centres and the width of Gaussian bases to fit each by ridge regression.

    Little penalty gives fits that differ much (variance) around a mean near the truth, much penalty gives
    fits alike but off (bias); 100 sets of 25 rows with 24 bases, at log-penalties 2.6, -0.31 and -2.4, show
    it.
    """
    tables = [noisy_sinusoid(num_rows, noise, seed + k) for k in range(num_sets)]
    centres = np.linspace(0, 1, num_bases)
    return tables, centres, 0.1


def blobs(
    num_rows: int = 300, num_groups: int = 3, dim: int = 2, spread: float = 4.0, seed: int = 0
) -> Table:
    """Unit-variance Gaussian groups around centres drawn with standard deviation `spread`."""
    numbers = generator(seed)
    centres = spread * numbers.normal(size=(num_groups, dim))
    group = np.arange(num_rows) % num_groups
    names = tuple(f"x{i + 1}" for i in range(dim))
    return Table("blobs", centres[group] + numbers.normal(size=(num_rows, dim)), group, names, "group")


def two_moons(num_rows: int = 200, noise: float = 0.1, seed: int = 0) -> Table:
    """Two interlocking half-circles: no straight line separates them."""
    numbers = generator(seed)
    moon = np.arange(num_rows) % 2
    angle = numbers.uniform(0, np.pi, num_rows)
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lower = np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)
    points = np.where(moon[:, None] == 0, upper, lower) + noise * numbers.normal(size=(num_rows, 2))
    return Table("two_moons", points, moon, ("x1", "x2"), "moon")


def swiss_roll(num_rows: int = 800, noise: float = 0.0, seed: int = 0) -> Table:
    r"""A rolled strip in space, $(t\cos t, h, t\sin t)$: the target is the angle $t$ along the roll."""
    numbers = generator(seed)
    angle = 1.5 * np.pi * (1 + 2 * numbers.uniform(size=num_rows))
    points = np.stack(
        [angle * np.cos(angle), 21 * numbers.uniform(size=num_rows), angle * np.sin(angle)], axis=1
    )
    points = points + noise * numbers.normal(size=points.shape)
    return Table("swiss_roll", points, angle, ("x1", "x2", "x3"), "angle")


def s_curve(num_rows: int = 800, noise: float = 0.0, seed: int = 0) -> Table:
    """A strip bent to the letter S: the target is the place along it, which is its length of arc."""
    numbers = generator(seed)
    angle = 3 * np.pi * (numbers.uniform(size=num_rows) - 0.5)
    height = 2 * numbers.uniform(size=num_rows)
    points = np.stack([np.sin(angle), height, np.sign(angle) * (np.cos(angle) - 1)], axis=1)
    points = points + noise * numbers.normal(size=points.shape)
    return Table("s_curve", points, angle, ("x1", "x2", "x3"), "place")
