"""How NumPyro, BlackJAX and nutpie sample the six posteriors, each as its own documentation has it.

`statement(problem)` gives the log-density (without the log-determinants) on the parameters' own scales, to
check that all libraries mean the same; `sampler(problem, ...)` gives `run(seed) -> Answer`. A library is
imported inside its functions: the process that measures one loads no other.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks._mcmc_problems import Problem, free_start

CHAINS, WARMUP, DRAWS = 4, 1000, 1000


class Answer(NamedTuple):
    """Draws `(chains, draws, ...)` by parameter, gradients including warm-up where known, divergences."""

    draws: dict[str, np.ndarray]
    num_gradients: int | None
    divergences: int


# NumPyro -------------------------------------------------------------------------------------------------


def numpyro_model(problem: Problem) -> Callable[[], None]:
    """The problem as a NumPyro model."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    data = {name: jnp.asarray(value) for name, value in problem.data.items()}

    def eight_schools():
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfCauchy(5))
        z = numpyro.sample("z", dist.Normal(0, 1).expand([8]).to_event(1))
        numpyro.sample("y", dist.Normal(mu + tau * z, data["error"]), obs=data["effect"])

    def logistic():
        w = numpyro.sample("w", dist.Normal(0, 1).expand([25]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=data["features"] @ w), obs=data["labels"])

    def radon():
        mu, slope = numpyro.sample("mu", dist.Normal(0, 10)), numpyro.sample("slope", dist.Normal(0, 10))
        tau, sigma = (numpyro.sample(name, dist.HalfNormal(1)) for name in ("tau", "sigma"))
        z = numpyro.sample("z", dist.Normal(0, 1).expand([85]).to_event(1))
        level = (mu + tau * z)[data["group"]] + slope * data["floor"]
        numpyro.sample("y", dist.Normal(level, sigma), obs=data["level"])

    def gaussian():
        x = numpyro.sample("x", dist.ImproperUniform(dist.constraints.real_vector, (), (50,)))
        numpyro.factor("density", -0.5 * x @ (data["precision"] @ x))

    def funnel():
        v = numpyro.sample("v", dist.Normal(0, 3))
        numpyro.sample("x", dist.Normal(0, jnp.exp(v / 2)).expand([9]).to_event(1))

    def horseshoe():
        z = numpyro.sample("z", dist.Normal(0, 1).expand([200]).to_event(1))
        local = numpyro.sample("local", dist.HalfCauchy(1).expand([200]).to_event(1))
        shrinkage = numpyro.sample("shrinkage", dist.HalfCauchy(1))
        sigma = numpyro.sample("sigma", dist.HalfNormal(2))
        intercept = numpyro.sample("intercept", dist.Normal(0, 5))
        slab = numpyro.sample("slab", dist.InverseGamma(2, 8))
        scale = 5 / 195 / 10 * sigma * shrinkage
        regularised = jnp.sqrt(slab) * local / jnp.sqrt(slab + (scale * local) ** 2)
        mean = intercept + data["features"] @ (scale * regularised * z)
        numpyro.sample("y", dist.Normal(mean, sigma), obs=data["response"])

    del jax
    return locals()[problem.name]


def numpyro_statement(problem: Problem) -> Callable[[dict[str, Any]], float]:
    """The log-density of the NumPyro model."""
    from numpyro.infer.util import log_density

    model = numpyro_model(problem)
    return lambda x: float(log_density(model, (), {}, x)[0])


def numpyro_sampler(problem: Problem, variant: str) -> Callable[..., Answer]:
    """NUTS with the chains vectorized, or in parallel on as many devices as chains."""
    import numpyro

    numpyro.enable_x64()
    if variant == "parallel":
        numpyro.set_host_device_count(CHAINS)
    import jax
    from numpyro.infer import MCMC, NUTS

    mcmc = MCMC(
        NUTS(numpyro_model(problem)),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method=variant,
        progress_bar=False,
    )

    def run(seed: int, count: bool = False) -> Answer:
        total, fields = 0, ("num_steps", "diverging")
        key = jax.random.key(seed)
        if count:  # a separate run, untimed: collecting the warm-up compiles a second program
            mcmc.warmup(key, collect_warmup=True, extra_fields=fields)
            total += int(mcmc.get_extra_fields()["num_steps"].sum())
            key = mcmc.post_warmup_state.rng_key
        mcmc.run(key, extra_fields=fields)
        extra, draws = mcmc.get_extra_fields(), mcmc.get_samples(group_by_chain=True)
        gradients = total + int(extra["num_steps"].sum()) if count else None
        named = {name: np.asarray(draws[name]) for name in problem.shapes}
        return Answer(named, gradients, int(extra["diverging"].sum()))

    return run


# BlackJAX ------------------------------------------------------------------------------------------------


def blackjax_statement(problem: Problem) -> Callable[[dict[str, Any]], float]:
    """The density that BlackJAX is given, which is ours."""
    from benchmarks._mcmc_densities import DENSITIES

    return lambda x: float(DENSITIES[problem.name](x, problem.data))


def blackjax_sampler(problem: Problem, variant: str) -> Callable[..., Answer]:
    """Window adaptation and NUTS, one `vmap` over the chains, one compiled program for each."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import blackjax
    import jax.numpy as jnp

    from benchmarks._mcmc_densities import DENSITIES

    data = {name: jnp.asarray(value) for name, value in problem.data.items()}

    def onto(free):
        return {name: jnp.exp(v) if name in problem.positive else v for name, v in free.items()}

    def log_density(free):
        log_det = sum(jnp.sum(free[name]) for name in problem.positive)
        return DENSITIES[problem.name](onto(free), data) + log_det

    @jax.jit
    @jax.vmap
    def warm_up(key, start):
        adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, parameters), info = adaptation.run(key, start, num_steps=WARMUP)
        return state, parameters, info.info.num_integration_steps.sum()

    @jax.jit
    @jax.vmap
    def sample(key, state, parameters):
        kernel = blackjax.nuts(log_density, **parameters)

        def step(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps, info.is_divergent)

        return jax.lax.scan(step, state, jax.random.split(key, DRAWS))[1]

    def run(seed: int, count: bool = False) -> Answer:
        first, second = jax.random.split(jax.random.key(seed))
        start = {name: jnp.asarray(v) for name, v in free_start(problem, CHAINS, seed).items()}
        state, parameters, warm = warm_up(jax.random.split(first, CHAINS), start)
        positions, steps, diverging = sample(jax.random.split(second, CHAINS), state, parameters)
        named = {name: np.asarray(v) for name, v in onto(positions).items()}
        return Answer(named, int(warm.sum() + steps.sum()), int(diverging.sum()))

    return run


# PyMC and nutpie -----------------------------------------------------------------------------------------


def pymc_model(problem: Problem) -> Any:
    """The problem as a PyMC model."""
    import pymc as pm

    data = problem.data

    def eight_schools():
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        pm.Normal("y", mu + tau * pm.Normal("z", 0, 1, shape=8), data["error"], observed=data["effect"])

    def logistic():
        w = pm.Normal("w", 0, 1, shape=25)
        pm.Bernoulli("y", logit_p=data["features"] @ w, observed=data["labels"])

    def radon():
        mu, slope = pm.Normal("mu", 0, 10), pm.Normal("slope", 0, 10)
        tau, sigma = pm.HalfNormal("tau", 1), pm.HalfNormal("sigma", 1)
        z = pm.Normal("z", 0, 1, shape=85)
        level = (mu + tau * z)[data["group"]] + slope * data["floor"]
        pm.Normal("y", level, sigma, observed=data["level"])

    def gaussian():
        x = pm.Flat("x", shape=50)
        pm.Potential("density", -0.5 * x @ (data["precision"] @ x))

    def funnel():
        v = pm.Normal("v", 0, 3)
        pm.Normal("x", 0, pm.math.exp(v / 2), shape=9)

    def horseshoe():
        z, local = pm.Normal("z", 0, 1, shape=200), pm.HalfCauchy("local", 1, shape=200)
        shrinkage, sigma = pm.HalfCauchy("shrinkage", 1), pm.HalfNormal("sigma", 2)
        intercept, slab = pm.Normal("intercept", 0, 5), pm.InverseGamma("slab", 2, 8)
        scale = 5 / 195 / 10 * sigma * shrinkage
        regularised = pm.math.sqrt(slab) * local / pm.math.sqrt(slab + (scale * local) ** 2)
        mean = intercept + data["features"] @ (scale * regularised * z)
        pm.Normal("y", mean, sigma, observed=data["response"])

    state = locals()[problem.name]
    with pm.Model() as model:
        state()
    return model


def nutpie_statement(problem: Problem) -> Callable[[dict[str, Any]], float]:
    """The log-density of the PyMC model."""
    model = pymc_model(problem)
    compiled = model.compile_logp(jacobian=False)

    def value(x):
        free = {}
        for name, v in x.items():
            positive = name in problem.positive
            free[f"{name}_log__" if positive else name] = np.log(v) if positive else np.asarray(v)
        return float(compiled(free))

    return value


def nutpie_sampler(problem: Problem, variant: str) -> Callable[..., Answer]:
    """nutpie on the numba backend: `tune1000` as PyMC asks, `default` with nutpie's own length."""
    import nutpie

    compiled = nutpie.compile_pymc_model(pymc_model(problem), backend="numba")
    tune = {"tune": WARMUP} if variant == "tune1000" else {}

    def run(seed: int, count: bool = False) -> Answer:
        trace = nutpie.sample(
            compiled, draws=DRAWS, chains=CHAINS, seed=seed, save_warmup=True, progress_bar=False, **tune
        )
        gradients = sum(
            int(trace[group]["n_steps"].values.sum()) for group in ("sample_stats", "warmup_sample_stats")
        )
        named = {name: trace.posterior[name].values for name in problem.shapes}
        return Answer(named, gradients, int(trace.sample_stats["diverging"].values.sum()))

    return run


STATEMENTS = {"numpyro": numpyro_statement, "blackjax": blackjax_statement, "nutpie": nutpie_statement}
SAMPLERS = {"numpyro": numpyro_sampler, "blackjax": blackjax_sampler, "nutpie": nutpie_sampler}
VARIANTS = {
    "numpyro": ("vectorized", "parallel"),
    "blackjax": ("vmap",),
    "nutpie": ("tune1000", "default"),
}
