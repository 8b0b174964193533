"""Markov chains: weather, equilibrium, classes, gamblers, words, orders, autoregression, pictures."""

import matplotlib

matplotlib.use("Agg")

import jax.random as jr
import numpy as np

import tractable as tr


def main() -> None:
    weather = tr.statespace.MarkovChain([[0.7, 0.3], [0.6, 0.4]], [1.0, 0.0], ["rain", "sun"])
    print(weather.equilibria())
    print("rain in a week:", round(weather.probability("rain", "rain", 7), 6))
    assert np.allclose(weather.stationary(), [2 / 3, 1 / 3])

    days = weather.sample(jr.key(0), 2000)
    fitted = tr.statespace.MarkovChain.fit(days, names=["rain", "sun"], smoothing=0.5)
    print("\nfitted to 2000 days:", fitted.transition.round(3).tolist())
    print(tr.statespace.choose_order(days, 3))

    # a gambler with 3 of 8 coins, who wins with probability 0.48
    steps = np.diag(np.full(8, 0.48), 1) + np.diag(np.full(8, 0.52), -1)
    steps[0], steps[-1] = np.eye(9)[0], np.eye(9)[-1]
    gambler = tr.statespace.MarkovChain(steps)
    print("\n", gambler.classify(), sep="")
    ends = gambler.absorption()
    ratio = 0.52 / 0.48
    print(f"3 coins: ruined with {ends.probabilities[2, 0]:.4f} after {ends.times[2]:.2f} games")
    assert np.isclose(ends.probabilities[2, 1], (1 - ratio**3) / (1 - ratio**8))

    # letters of words: a smoothed chain of order two writes new ones
    words = ["markov", "marmot", "market", "karma", "mark", "remark", "marker", "armour", "tomato", "motor"]
    letters = tr.statespace.MarkovChain.fit([f"^^{word}$$" for word in words], order=2, smoothing=1e-3)
    drawn = letters.sample(jr.key(3), 40, "^^")
    print("\nletters:", "".join(str(letters.names[i]) for i in drawn))

    series = tr.statespace.AutoRegression([1.2, -0.5], 1.0, 0.5).sample(jr.key(1), 400)
    model = tr.statespace.AutoRegression.fit(series, 2, method="exact")
    print("\n", model, sep="")
    ahead = model.forecast(series, 12)
    ax = tr.plot(ahead, series[-50:])
    assert len(ax.get_lines()) == 2
    tr.plot(weather)
    curve = tr.plot(weather, kind="distance", num_steps=10)
    assert np.isclose(curve.get_lines()[0].get_ydata()[1], 0.1 * 2 / 3)


if __name__ == "__main__":
    main()
