r"""The models behind a folder of reference posteriors, each stated once: data, start, density, names.

Volume.      A flat prior on $0 < \alpha_1$, $0 < \beta_1$, $\alpha_1 + \beta_1 < 1$ is flat on the simplex of
             three parts: the order of the constraints disappears.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.support import ordered, positive, positive_ordered, simplex, unit_interval
from tractable.distributions import Beta, Gamma, Gaussian, HalfCauchy, HalfNormal, Normal, StudentT

Draws = dict[str, np.ndarray]


class PosteriorModel(NamedTuple):
    """`log_density(x, data)` from `start(data)`, and how the draws give the quantities of the reference."""

    prepare: Callable[[dict[str, Any]], Draws]  # from the data of the file to the arrays of the density
    start: Callable[[Draws], dict[str, Any]]
    log_density: Callable[[Any, Any], Any]
    supports: dict[str, Any]
    quantities: Callable[[Draws, Draws], Draws] = lambda draws, data: draws
    num_draws: int = 2500  # per chain: an error of 5 % in any sd is then four standard errors or more


def _rows(names: str) -> Callable[[dict[str, Any]], Draws]:
    return lambda data: {name: np.asarray(data[name], float) for name in names.split()}


def _linear(x: Any, data: Any) -> Any:
    """The likelihood of a linear regression on `features`."""
    return Normal(data["features"] @ x["beta"], x["sigma"]).log_prob(data["response"]).sum()


def _linear_start(data: Draws) -> dict[str, Any]:
    return {"beta": np.zeros(data["features"].shape[1]), "sigma": 1.0}


# Linear models -------------------------------------------------------------------------------------------


def _lags(data: dict[str, Any]) -> Draws:
    y, order = np.asarray(data["y"], float), data["K"]
    lagged = [y[order - k : len(y) - k] for k in range(1, order + 1)]
    return {"lags": np.stack(lagged, 1), "response": y[order:]}


def _autoregression(x: Any, data: Any) -> Any:
    mean = x["alpha"] + data["lags"] @ x["beta"]
    prior = Normal(0.0, 10.0).log_prob(x["alpha"]) + Normal(0.0, 10.0).log_prob(x["beta"]).sum()
    prior += HalfCauchy(2.5).log_prob(x["sigma"])
    return prior + Normal(mean, x["sigma"]).log_prob(data["response"]).sum()


def _diamonds_data(data: dict[str, Any]) -> Draws:
    columns = np.asarray(data["X"], float)[:, 1:]
    return {"columns": columns - columns.mean(0), "response": np.asarray(data["Y"], float)}


def _diamonds(x: Any, data: Any) -> Any:
    prior = Normal(0.0, 1.0).log_prob(x["b"]).sum() + StudentT(3.0, 8.0, 10.0).log_prob(x["Intercept"])
    prior += StudentT(3.0, 0.0, 10.0).log_prob(x["sigma"])
    mean = x["Intercept"] + data["columns"] @ x["b"]
    return prior + Normal(mean, x["sigma"]).log_prob(data["response"]).sum()


def _kidiq_data(data: dict[str, Any]) -> Draws:
    iq = np.asarray(data["mom_iq"], float)
    return {
        "features": np.stack([np.ones_like(iq), iq], 1),
        "response": np.asarray(data["kid_score"], float),
    }


def _kidiq(x: Any, data: Any) -> Any:
    return _linear(x, data) + HalfCauchy(2.5).log_prob(x["sigma"])


def _nes_data(data: dict[str, Any]) -> Draws:
    age = np.asarray(data["age_discrete"])
    columns = [np.ones(len(age)), data["real_ideo"], data["race_adj"], age == 2, age == 3, age == 4]
    columns += [data["educ1"], data["gender"], data["income"]]
    features = np.stack([np.asarray(c, float) for c in columns], 1)
    return {"features": features, "response": np.asarray(data["partyid7"], float)}


def _blr_data(data: dict[str, Any]) -> Draws:
    return {"features": np.asarray(data["X"], float), "response": np.asarray(data["y"], float)}


def _blr(x: Any, data: Any) -> Any:
    prior = Normal(0.0, 10.0).log_prob(x["beta"]).sum() + HalfNormal(10.0).log_prob(x["sigma"])
    return prior + _linear(x, data)


# Hierarchies, mixtures, Gaussian processes -----------------------------------------------------------------


def _eight_schools(x: Any, data: Any) -> Any:
    theta = x["mu"] + x["tau"] * x["theta_trans"]
    prior = Normal(0.0, 5.0).log_prob(x["mu"]) + HalfCauchy(5.0).log_prob(x["tau"])
    prior += Normal(0.0, 1.0).log_prob(x["theta_trans"]).sum()
    return prior + Normal(theta, data["sigma"]).log_prob(data["y"]).sum()


def _school_effects(draws: Draws, data: Draws) -> Draws:
    theta = draws["mu"][..., None] + draws["tau"][..., None] * draws["theta_trans"]
    return {"theta": theta, "mu": draws["mu"], "tau": draws["tau"]}


def _mixture(x: Any, data: Any) -> Any:
    prior = Normal(0.0, 2.0).log_prob(x["mu"]).sum() + HalfNormal(2.0).log_prob(x["sigma"]).sum()
    prior += Beta(5.0, 5.0).log_prob(x["theta"])
    first = jnp.log(x["theta"]) + Normal(x["mu"][0], x["sigma"][0]).log_prob(data["y"])
    second = jnp.log1p(-x["theta"]) + Normal(x["mu"][1], x["sigma"][1]).log_prob(data["y"])
    return prior + jnp.logaddexp(first, second).sum()


def _gaussian_process(x: Any, data: Any) -> Any:
    prior = Gamma(25.0, 4.0).log_prob(x["rho"]) + HalfNormal(2.0).log_prob(x["alpha"])
    prior += HalfNormal(1.0).log_prob(x["sigma"])
    gap = (data["x"][:, None] - data["x"][None, :]) / x["rho"]
    cov = x["alpha"] ** 2 * jnp.exp(-0.5 * gap**2) + x["sigma"] * jnp.eye(gap.shape[0])
    return prior + Gaussian(jnp.zeros(gap.shape[0]), cov).log_prob(data["y"])


# Series ----------------------------------------------------------------------------------------------------


def _garch(x: Any, data: Any) -> Any:
    shock, memory, _ = x["shares"]
    pushes = x["alpha0"] + shock * (data["y"][:-1] - x["mu"]) ** 2

    def then(early, late):  # two affine maps of the variance, one after the other
        return early[0] * late[0], late[0] * early[1] + late[1]

    slopes, offsets = jax.lax.associative_scan(then, (jnp.full_like(pushes, memory), pushes))
    first = data["sigma1"] ** 2
    variance = jnp.concatenate([first[None], slopes * first + offsets])
    return Normal(x["mu"], jnp.sqrt(variance)).log_prob(data["y"]).sum()


def _garch_names(draws: Draws, data: Draws) -> Draws:
    named = {"mu": draws["mu"], "alpha0": draws["alpha0"]}
    return {**named, "alpha1": draws["shares"][..., 0], "beta1": draws["shares"][..., 1]}


def _hidden_markov(x: Any, data: Any) -> Any:
    emission = jnp.stack([Normal(x["mu"][k], 1.0).log_prob(data["y"]) for k in range(2)], 1)
    steps = jnp.log(jnp.stack([x["theta1"], x["theta2"]]))[None] + emission[1:, None, :]

    def then(early, late):  # matrix products in log space
        return jax.nn.logsumexp(early[..., :, :, None] + late[..., None, :, :], axis=-2)

    through = jax.lax.associative_scan(then, steps)[-1]
    prior = Normal(3.0, 1.0).log_prob(x["mu"][0]) + Normal(10.0, 1.0).log_prob(x["mu"][1])
    return prior + jax.nn.logsumexp(emission[0][:, None] + through)


def model_of(posterior: str) -> PosteriorModel | None:
    """The model of a posterior named `data-model`, or `None`."""
    return MODELS.get(posterior.split("-", 1)[-1])


_NOISE = {"sigma": positive}

# by the second part of a posterior's name: `eight_schools-eight_schools_noncentered` is data and model
MODELS: dict[str, PosteriorModel] = {
    "arK": PosteriorModel(
        _lags,
        lambda data: {"alpha": 0.0, "beta": np.zeros(data["lags"].shape[1]), "sigma": 1.0},
        _autoregression,
        _NOISE,
    ),
    "diamonds": PosteriorModel(
        _diamonds_data,
        lambda data: {"b": np.zeros(data["columns"].shape[1]), "Intercept": 8.0, "sigma": 1.0},
        _diamonds,
        _NOISE,
    ),
    "eight_schools_noncentered": PosteriorModel(
        _rows("y sigma"),
        lambda data: {"mu": 0.0, "tau": 1.0, "theta_trans": np.zeros(len(data["y"]))},
        _eight_schools,
        {"tau": positive},
        _school_effects,
        10_000,  # the tail of tau is heavy
    ),
    "garch11": PosteriorModel(
        _rows("y sigma1"),
        lambda data: {"mu": data["y"].mean(), "alpha0": 1.0, "shares": np.array([0.4, 0.3, 0.3])},
        _garch,
        {"alpha0": positive, "shares": simplex},
        _garch_names,
    ),
    "gp_regr": PosteriorModel(
        _rows("x y"),
        lambda data: {"rho": 6.0, "alpha": 2.0, "sigma": 1.0},
        _gaussian_process,
        {"rho": positive, "alpha": positive, "sigma": positive},
        num_draws=5000,
    ),
    "hmm_example": PosteriorModel(
        _rows("y"),
        lambda data: {
            "theta1": np.full(2, 0.5),
            "theta2": np.full(2, 0.5),
            "mu": np.quantile(data["y"], [0.1, 0.7]),
        },
        _hidden_markov,
        {"theta1": simplex, "theta2": simplex, "mu": positive_ordered},
    ),
    "kidscore_momiq": PosteriorModel(_kidiq_data, _linear_start, _kidiq, _NOISE),
    "low_dim_gauss_mix": PosteriorModel(
        _rows("y"),
        lambda data: {"mu": np.array([-1.0, 1.0]), "sigma": np.ones(2), "theta": 0.5},
        _mixture,
        {"mu": ordered, "sigma": positive, "theta": unit_interval},
    ),
    "nes": PosteriorModel(_nes_data, _linear_start, _linear, _NOISE),
    "blr": PosteriorModel(_blr_data, _linear_start, _blr, _NOISE),
}
