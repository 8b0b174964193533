"""A law whose parameters are boosted: what the rounds ask of every family (`supervised.boosting.laws`)."""

from typing import Any, ClassVar

import numpy as np

from tractable.distributions.base import Distribution

__all__ = ["Law"]


class Law:
    """One family: `num_parameters` coordinates of each row, which trees add to."""

    name: ClassVar[str] = ""
    parameters: ClassVar[tuple[str, ...]] = ()
    limits: ClassVar[tuple[float, ...]] = ()  # of one step of each coordinate
    has_units: ClassVar[bool] = False  # whether targets may be centred and scaled
    identity: ClassVar[bool] = False  # whether the first coordinate is the mean itself
    target: ClassVar[str] = "numbers"

    @property
    def num_parameters(self) -> int:
        return len(self.parameters)

    @property
    def crossed(self) -> bool:
        """Whether later coordinates describe what the first leaves over: they are fitted to its out-of-fold
        values, since what a fit has seen looks less noisy than it is."""
        return self.num_parameters > 1

    def check(self, y: np.ndarray) -> None:
        """Refuse targets that the law cannot produce."""

    def start(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The coordinates that fit all rows alike."""
        raise NotImplementedError

    def slope(self, k: int, theta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The derivative of each row's log-density in coordinate `k`, and its information."""
        raise NotImplementedError

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The log-density (or mass) of each row's target."""
        raise NotImplementedError

    def log_density(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The same for targets as they came: `log_prob` of a log-normal is that of logarithms. An impossible
        target has minus infinity."""
        ok = self.possible(y)
        return np.where(ok, self.log_prob(theta, np.where(ok, y, 1.0)), -np.inf)

    def possible(self, y: np.ndarray) -> np.ndarray:
        """Which targets the law can produce."""
        return np.ones(len(y), bool)

    def distribution(self, theta: np.ndarray) -> Distribution:
        """The law of each row."""
        raise NotImplementedError

    def quantile(self, theta: np.ndarray, p: float) -> np.ndarray:
        """The quantile of each row, on the host where SciPy has it: nothing is compiled."""
        made: Any = self.distribution(theta)
        return np.asarray(made.icdf(p))

    def moments(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each row."""
        raise NotImplementedError

    def tuned(self, theta: np.ndarray, y: np.ndarray, weights: np.ndarray) -> "Law":
        """The law with what is common to all rows fitted to held-out coordinates."""
        return self
