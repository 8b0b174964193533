"""Pictures of Gaussian processes on the line: the band of a prior or a posterior, with sample paths and
data.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.special import ndtri

from tractable.core.checks import check, check_count
from tractable.core.keys import takes_key
from tractable.core.types import ArrayLike, Key
from tractable.plots.display import Display

__all__ = ["ProcessDisplay"]

_POINTS = 200  # on which a function is drawn


class ProcessDisplay(Display):
    """Mean, central band and joint sample paths of a process over points of the line.

    `ProcessDisplay.from_model(process, x)` draws a prior (`GaussianProcess`) or a posterior with its data;
    `ax_` and `figure_` are what was drawn on.
    """

    def __init__(self, x: ArrayLike, mean: ArrayLike, deviation: ArrayLike, paths: ArrayLike | None = None,
                 data: tuple[ArrayLike, ArrayLike] | None = None, level: float = 0.95):  # fmt: skip
        self.x, self.mean, self.deviation = (np.asarray(a, float) for a in (x, mean, deviation))
        check(self.x.ndim == 1, "x", "points of the line, a vector", f"shape {self.x.shape}")
        check(0 < level < 1, "level", "between 0 and 1", level)
        self.paths = np.zeros((0, len(self.x))) if paths is None else np.asarray(paths, float)
        self.data, self.level = data, level

    @classmethod
    @takes_key
    def from_model(
        cls, model: Any, x: ArrayLike | None = None, *, num_paths: int = 0, key: Key | None = None,
        level: float = 0.95, ax: Axes | None = None,
    ) -> "ProcessDisplay":  # fmt: skip
        """Draw the function of a prior, a posterior or a fitted estimator, in the units of its targets.

        `x` are the points; by default they reach a little beyond the data. Paths need a `key`.
        """
        inner, scale, centre = _inside(model)
        data = _data_of(inner)
        points = _points(data, getattr(inner, "process", None)) if x is None else np.asarray(x, float)
        count = check_count("num_paths", num_paths, least=0)
        check(count == 0 or key is not None, "key", "given where there are `num_paths`", None)
        paths = None if key is None or count == 0 else inner.sample(key, points, (count,))
        if hasattr(inner, "latent"):
            latent = (getattr(model, "average_", None) or inner).latent(points)
            mean, deviation = np.asarray(latent.mean), np.asarray(latent.std)
        else:
            prior = inner.prior(points)
            mean, deviation = np.asarray(prior.mean), np.sqrt(np.diag(np.asarray(prior.cov)))
        paths = None if paths is None else centre + scale * np.asarray(paths)
        data = None if data is None else (data[0], centre + scale * data[1])
        return cls(points, centre + scale * mean, scale * deviation, paths, data, level).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> "ProcessDisplay":
        """Draw the band, the mean, the paths and the data."""
        ax = self._on(ax, 6, 3.5)
        width = float(ndtri(0.5 + self.level / 2)) * self.deviation
        label = f"{self.level:.0%} band"
        ax.fill_between(self.x, self.mean - width, self.mean + width, color="0.88", label=label)
        for number, path in enumerate(self.paths):
            ax.plot(self.x, path, lw=0.8, color=f"C{number % 10}")
        ax.plot(self.x, self.mean, color="k", lw=1.2, label="mean")
        if self.data is not None:
            ax.plot(*map(np.asarray, self.data), "o", ms=4, color="tab:red", label="data")
        ax.set(xlabel="x", ylabel="f(x)")
        ax.legend(fontsize="small")
        return self


def _inside(model: Any) -> tuple[Any, float, float]:
    """The process of an estimator, and the scale and the centre that take it to the units of the targets."""
    if not hasattr(model, "y_scale_") and not hasattr(model, "model_"):
        return model, 1.0, 0.0
    inner = model.model_ if hasattr(model, "model_") else model.run_
    return inner, float(getattr(model, "y_scale_", 1.0)), float(getattr(model, "y_mean_", 0.0))


def _data_of(inner: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """The rows that a posterior on the line has seen; nothing for a prior, or where they are not kept."""
    observed = getattr(inner, "observed", None)
    if observed is None:
        return None
    check(observed.X.shape[1] == 1, "model", "a process on the line", f"{observed.X.shape[1]} columns")
    kept = np.asarray(observed.present)
    return np.asarray(observed.X)[kept, 0], np.asarray(observed.y)[kept]


def _points(data: tuple[np.ndarray, np.ndarray] | None, process: Any) -> np.ndarray:
    """Places that reach a little beyond what is known of the data."""
    known = data[0] if data is not None else np.ravel(np.asarray(getattr(process, "inducing", ())))
    check(known.size > 0, "x", "given for a prior, which has no data", None)
    margin = 0.1 * max(float(np.ptp(known)), 1e-9)
    return np.linspace(known.min() - margin, known.max() + margin, _POINTS)
