"""Generated series with known truth: each is drawn with the readings that follow it."""

import numpy as np

__all__ = ["FAMILIES", "draw"]

FAMILIES = ("walk", "level", "trend", "autoregression", "season", "growth")


def draw(family: str, seed: int, size: int = 120, horizon: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """A series and what came after it."""
    rng = np.random.default_rng((FAMILIES.index(family), seed))
    n = size + horizon
    t, noise, steps = np.arange(n), rng.normal(size=n), rng.normal(size=n)
    if family == "walk":
        y = np.cumsum(steps)
    elif family == "level":
        y = 50 + np.cumsum(0.3 * steps) + noise
    elif family == "trend":
        y = 10 + np.cumsum(0.2 + np.cumsum(0.03 * rng.normal(size=n)) + 0.2 * steps) + noise
    elif family == "autoregression":
        y = np.empty(n)
        y[0] = steps[0] / np.sqrt(1 - 0.7**2)
        for i in range(1, n):
            y[i] = 0.7 * y[i - 1] + steps[i]
        y += 5
    elif family == "season":
        y = (
            20
            + np.cumsum(0.05 + 0.2 * steps)
            + 3 * np.sin(2 * np.pi * t / 12)
            + np.cos(4 * np.pi * t / 12)
            + 0.7 * noise
        )
    else:
        y = np.exp(4 + 0.012 * t + 0.2 * np.sin(2 * np.pi * t / 12) + np.cumsum(0.02 * steps) + 0.04 * noise)
    return y[:size], y[size:]
