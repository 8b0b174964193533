r"""The bias-variance experiment: the same learner on many data sets from one law.

Identity.    For $y = h(x) + \varepsilon$ and learners $f_D$ fitted to data sets $D$, with $\bar f = E_D f_D$,
             $E_D E[(y - f_D(x))^2] = (\bar f(x) - h(x))^2 + \mathrm{Var}_D f_D(x) + \sigma^2$:
             squared bias, variance and noise.
Estimate.    Over $L$ data sets $\mathrm{Var}$ divides by $L$, so that the three parts add up exactly to the
             mean squared error of the fits about $h$, plus noise.
Cost.        One fit for each data set and setting.
References.  Geman, Bienenstock and Doursat (1992); Bishop (2006) section 3.2.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, check_length
from tractable.core.keys import takes_key
from tractable.core.module import Module
from tractable.core.types import ArrayLike, Key

__all__ = ["BiasVariance", "bias_variance", "bias_variance_curve"]


class BiasVariance(Module):
    """Squared bias, variance and noise at each test point, for each setting: `(settings, points)`."""

    _shown = ("settings", "mean_squared_bias", "mean_variance", "noise", "expected_loss", "best")

    settings: np.ndarray
    squared_bias: np.ndarray
    variance: np.ndarray
    noise: float
    predictions: np.ndarray  # (settings, data sets, points)

    @property
    def mean_squared_bias(self) -> np.ndarray:
        """Over the test points, for each setting."""
        return self.squared_bias.mean(1)

    @property
    def mean_variance(self) -> np.ndarray:
        """Over the test points, for each setting."""
        return self.variance.mean(1)

    @property
    def expected_loss(self) -> np.ndarray:
        """The expected squared error of a new target, for each setting: the sum of the three parts."""
        return self.mean_squared_bias + self.mean_variance + self.noise

    @property
    def best(self) -> Any:
        """The setting of least expected loss."""
        return self.settings[self.expected_loss.argmin()]


def bias_variance_curve(
    learner: Callable[[Any], Callable],
    settings: Sequence[Any] | np.ndarray,
    draw: Callable[[Key], tuple[Any, Any]],
    points: ArrayLike,
    truth: ArrayLike,
    *,
    key: Key,
    noise: float | int = 0.0,
    num_data_sets: int = 100,
) -> BiasVariance:
    """The three parts for `learner(setting)`, a learner `fit(X, y) -> predict`, along settings.

    `draw(key)` makes a data set; `truth` is the regression function at `points`, and `noise` the variance of
    a target about it. All settings see the same data sets.
    """
    num_data_sets = check_count("num_data_sets", num_data_sets, 2)
    new, target = np.asarray(points), np.asarray(truth, float)
    check_length("truth", target, "points", new)
    check(noise >= 0, "noise", "zero or positive", noise)
    sets = [draw(own) for own in jr.split(key, num_data_sets)]
    found = np.array([[np.asarray(learner(s)(X, y)(new), float) for X, y in sets] for s in settings])
    must = f"one prediction per point {target.shape}"
    check(found.shape[2:] == target.shape, "learner", must, f"shape {found.shape[2:]}")
    bias = (found.mean(1) - target) ** 2
    return BiasVariance(np.asarray(settings), bias, found.var(1), float(noise), found)


@takes_key
def bias_variance(
    fit: Callable, draw: Callable[[Key], tuple[Any, Any]], points: ArrayLike, truth: ArrayLike, *, key: Key,
    noise: float | int = 0.0, num_data_sets: int = 100,
) -> BiasVariance:  # fmt: skip
    """The three parts for one learner."""
    return bias_variance_curve(
        lambda _: fit, ["learner"], draw, points, truth, key=key, noise=noise, num_data_sets=num_data_sets
    )
