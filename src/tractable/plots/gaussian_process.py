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
        cls, model: Any, x: ArrayLike, *, num_paths: int = 0, key: Key | None = None, level: float = 0.95,
        ax: Axes | None = None,
    ) -> "ProcessDisplay":  # fmt: skip
        """Draw the function of a prior or an exact posterior; paths need a `key`."""
        points = np.asarray(x, float)
        count = check_count("num_paths", num_paths, least=0)
        check(count == 0 or key is not None, "key", "given where there are `num_paths`", None)
        paths = None if key is None or count == 0 else model.sample(key, points, (count,))
        observed = getattr(model, "observed", None)
        if observed is None:
            prior = model.prior(points)
            deviation = np.sqrt(np.diag(np.asarray(prior.cov)))
            return cls(points, prior.mean, deviation, paths, None, level).plot(ax=ax)
        latent, kept = model.latent(points), np.asarray(observed.present)
        check(observed.X.shape[1] == 1, "model", "a process on the line", f"{observed.X.shape[1]} columns")
        data = np.asarray(observed.X)[kept, 0], np.asarray(observed.y)[kept]
        return cls(points, latent.mean, latent.std, paths, data, level).plot(ax=ax)

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
