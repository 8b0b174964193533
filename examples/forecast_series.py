"""Forecasts of a monthly series with a trend, a season, a gap and an outlier, whose future is known."""

import numpy as np

import tractable as tr


def main() -> None:
    rng = np.random.default_rng(7)
    months = np.datetime64("2012-01", "M") + np.arange(108)
    season = 6 * np.sin(2 * np.pi * np.arange(108) / 12)
    truth = 100 + np.cumsum(0.3 + 0.4 * rng.normal(size=108)) + season + rng.normal(size=108)
    readings, after = truth[:96].copy(), truth[96:]
    readings[40] += 14  # an outlier
    readings[60:62] = np.nan  # a gap

    found = tr.statespace.forecast_series(readings, 12, times=months[:96])
    print(found)
    print(found.verdict)
    for event in found.events:
        print(event.kind, months[event.place], round(event.size, 1))

    inside = (after >= found.lower) & (after <= found.upper)
    print(f"{inside.sum()} of 12 readings to come are inside the 90 % intervals")

    assert found.season == 12
    assert any(event.kind == "outlier" and event.place == 40 for event in found.events)
    assert found.metrics["mase"] < 1  # on readings held out, better than the season before
    assert inside.sum() >= 8


if __name__ == "__main__":
    main()
