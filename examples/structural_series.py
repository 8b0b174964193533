"""A monthly series as trend, season, a regressor and noise: fitted, decomposed and forecast."""

import numpy as np

from tractable.statespace.kalman.components import Regression, Seasonal, Trend
from tractable.statespace.kalman.structural import Structural

rng = np.random.default_rng(0)
t = np.arange(156)
price = rng.normal(size=156)
season = 3 * np.sin(2 * np.pi * t / 12) + np.cos(4 * np.pi * t / 12)
level = 50 + np.cumsum(0.1 + 0.3 * rng.normal(size=156))
sales = level + season - 1.5 * price + 0.5 * rng.normal(size=156)
known = sales[:144].copy()
known[30:33] = np.nan  # a quarter was lost

fitted = Structural((Trend(), Seasonal(12, "trigonometric", harmonics=2), Regression(price))).fit(known)
print(fitted)
parts = fitted.decompose()
print("effect of the price:", round(float(parts["regression"][0] / price[0]), 3))

ahead = fitted.forecast(12)
low, high = ahead.interval(0.9)
inside = ((sales[144:] > low[:, 0]) & (sales[144:] < high[:, 0])).mean()
print(f"share of the next year within the band of 0.9: {inside:.2f}")

assert fitted.verdict.ok
assert abs(parts["regression"][0] / price[0] + 1.5) < 0.2
assert np.sqrt(np.mean((parts["seasonal 12"] - season[:144]) ** 2)) < 0.5
assert inside >= 0.6
