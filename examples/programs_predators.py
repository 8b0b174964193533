"""Hares and lynxes: an ordinary differential equation inside a program, by steps of Runge and Kutta."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import tractable as tr
from tractable.distributions import LogNormal

TIMES = np.arange(1.0, 13.0)
STEPS = 20  # between two times


def change(state, rates):
    """Lotka and Volterra."""
    hares, lynxes = state
    return jnp.stack([(rates[0] - rates[1] * lynxes) * hares, (rates[3] * hares - rates[2]) * lynxes])


def path(start, rates):
    """The state at all times, by the rule of order four."""
    h = 1.0 / STEPS

    def step(state, _):
        a = change(state, rates)
        b = change(state + h / 2 * a, rates)
        c = change(state + h / 2 * b, rates)
        d = change(state + h * c, rates)
        state = state + h / 6 * (a + 2 * b + 2 * c + d)
        return state, state

    states = jax.lax.scan(step, start, None, length=STEPS * len(TIMES))[1]
    return states[STEPS - 1 :: STEPS]


@tr.model
def predators(pelts):
    rates = tr.sample("rates", LogNormal(jnp.log(jnp.array([0.5, 0.03, 0.8, 0.03])), 0.5))
    start = tr.sample("start", LogNormal(jnp.log(jnp.array([30.0, 5.0])), 0.5))
    noise = tr.sample("noise", LogNormal(-1.5, 0.5))
    tr.sample("pelts", LogNormal(jnp.log(path(start, rates)), noise), obs=pelts)


def log_joint(pelts: np.ndarray, values: dict[str, np.ndarray]) -> float:
    """The same number by SciPy's solver and densities written out."""

    def change_of(_, state):
        a, b, c, d = values["rates"]
        return [(a - b * state[1]) * state[0], (d * state[0] - c) * state[1]]

    solved = solve_ivp(change_of, (0, TIMES[-1]), values["start"], t_eval=TIMES, rtol=1e-10, atol=1e-10)

    def log_normal(x, mean, scale):
        return (-0.5 * ((np.log(x) - mean) / scale) ** 2 - np.log(x * scale * np.sqrt(2 * np.pi))).sum()

    total = log_normal(values["rates"], np.log([0.5, 0.03, 0.8, 0.03]), 0.5)
    total += log_normal(values["start"], np.log([30.0, 5.0]), 0.5) + log_normal(values["noise"], -1.5, 0.5)
    return float(total + log_normal(pelts, np.log(solved.y.T), values["noise"]))


def main() -> None:
    random = np.random.default_rng(0)
    truth = {"rates": np.array([0.55, 0.028, 0.84, 0.026]), "start": np.array([33.0, 6.0])}
    exact = np.asarray(path(jnp.asarray(truth["start"]), jnp.asarray(truth["rates"])))
    pelts = exact * np.exp(0.2 * random.normal(size=exact.shape))
    post = tr.infer(predators, pelts, key=0)
    print(post.explain())
    print(post.summary())

    assert post.verdict.ok
    for name, value in truth.items():
        assert np.all(abs(post[name].mean((0, 1)) - value) < 4 * post[name].std((0, 1)))
    program = predators.bind(pelts)
    for draw in (0, 300, 700):
        values = {name: np.asarray(post[name][0, draw]) for name in ("rates", "start", "noise")}
        assert abs(float(program.log_joint(values)) - log_joint(pelts, values)) < 1e-3


if __name__ == "__main__":
    main()
