r"""Targets with known answers, from easy to hopeless, on which verdicts are measured.

Answers.     Each target has expectations that are known in closed form or by quadrature on a line, and the
             logarithm of its mass; heavy tails are asked for probabilities, which exist whatever the moments.
Easy.        The methods for which a target is easy: there a refusal is a false alarm. Approximations by a
             Gaussian: Gaussians in free coordinates, of moderate conditioning. Importance weights: tails
             below those of the proposal and up to three dimensions, so that the weights are bounded and a few
             hundred of the draws count. Chains and particles: one mode, without necks, walls or heavy tails.
Hidden.      A spike that holds a large share of the mass where hardly a draw in ten thousand of the rest
             comes: no method that sees the density at some ten thousand points can know of it.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from scipy import stats

from tractable.core.support import positive, unit_interval

_LOG_2PI = math.log(2 * math.pi)
_MOST = 6  # coordinates that are asked for: many answers of which one is off by chance say nothing

DIAGONAL = frozenset({"mcmc", "vi mean-field", "vi full-rank", "laplace", "pathfinder", "smc"})
GAUSSIAN = DIAGONAL - {"vi mean-field"}
SMOOTH = frozenset({"mcmc", "smc"})
CHAINS = frozenset({"mcmc"})
COVERED = SMOOTH | {"importance"}  # by the proposal, whose tails are heavier
NONE: frozenset[str] = frozenset()


class Answer(NamedTuple):
    """An expectation: the function of one point, and the truth."""

    name: str
    function: Callable[[Any], Any]
    truth: Any


class Target(NamedTuple):
    """A log-density, a start, and what is known of it; `log_mass` is infinite where it is improper."""

    name: str
    kind: str
    log_density: Callable[[Any], Any]
    start: Any
    log_mass: float
    answers: tuple[Answer, ...]
    easy: frozenset[str]
    scale: float = 5.0  # of the prior and of the proposal, for the methods that want one
    supports: Any = None

    @property
    def proper(self) -> bool:
        """Whether there is an answer at all."""
        return math.isfinite(self.log_mass)


def _chosen(x: Any) -> Any:
    """Some coordinates, from the first to the last."""
    return x[np.unique(np.linspace(0, x.shape[0] - 1, min(x.shape[0], _MOST)).astype(int))]


def _moments(mean: Any, variance: Any) -> tuple[Answer, ...]:
    mean, variance = _chosen(np.atleast_1d(mean)), _chosen(np.atleast_1d(variance))
    centre, width = jnp.asarray(mean), jnp.asarray(np.sqrt(variance))
    return (
        Answer("mean", lambda x: (_chosen(x) - centre) / width, np.zeros_like(mean)),
        Answer("variance", lambda x: ((_chosen(x) - centre) / width) ** 2, np.ones_like(mean)),
    )


def _below(bounds: Any, truth: Any) -> tuple[Answer, ...]:
    """Probabilities that the first coordinate is below each of the bounds."""
    bounds = jnp.asarray(bounds, float)
    return (Answer("below", lambda x: (jnp.ravel(x)[0] <= bounds).astype(float), np.asarray(truth, float)),)


def _normal(x: Any, mean: Any = 0.0, sd: Any = 1.0) -> Any:
    return -0.5 * (((x - mean) / sd) ** 2).sum()


def _log_mass_normal(sd: Any) -> float:
    return float(np.log(np.asarray(sd)).sum() + 0.5 * np.size(sd) * _LOG_2PI)


def _diagonal(name: str, mean: Any, sd: Any, easy: frozenset[str] = DIAGONAL, scale: float = 5.0) -> Target:
    mean, sd = np.asarray(mean, float), np.asarray(sd, float)

    def log_density(x):
        return _normal(x, mean, sd)

    answers = _moments(mean, sd**2)
    start = np.zeros_like(mean)
    return Target(name, "Gaussian", log_density, start, _log_mass_normal(sd), answers, easy, scale)


def _correlated(name: str, cov: Any, easy: frozenset[str] = GAUSSIAN) -> Target:
    precision = np.linalg.inv(cov)

    def log_density(x):
        return -0.5 * x @ precision @ x

    dim = len(cov)
    mass = 0.5 * (np.linalg.slogdet(cov)[1] + dim * _LOG_2PI)
    answers = _moments(np.zeros(dim), np.diag(cov))
    return Target(name, "Gaussian", log_density, np.zeros(dim), float(mass), answers, easy)


def _equal(dim: int, correlation: float) -> np.ndarray:
    return (1 - correlation) * np.eye(dim) + correlation


def _student(name: str, df: float, dim: int, easy: frozenset[str] = NONE) -> Target:
    """A spherical Student; its coordinates are Student too."""

    def log_density(x):
        return -0.5 * (df + dim) * jnp.log1p((x**2).sum() / df)

    mass = math.lgamma(df / 2) - math.lgamma((df + dim) / 2) + 0.5 * dim * math.log(df * math.pi)
    answers = _below([-1.0, 0.0, 2.0], stats.t(df).cdf([-1.0, 0.0, 2.0]))
    return Target(name, "tails", log_density, np.full(dim, 0.5), mass, answers, easy)


def _product(name: str, kind: str, law: Any, log_one: Callable, dim: int, easy: frozenset[str]) -> Target:
    """Independent coordinates of one law; `log_one` lacks the law's normaliser at will."""

    def log_density(x):
        return log_one(x).sum()

    at = 0.3
    gap = float(np.asarray(log_one(jnp.asarray(at)))) - float(law.logpdf(at))
    bounds = law.ppf([0.1, 0.5, 0.9])
    return Target(name, kind, log_density, np.full(dim, at), dim * gap, _below(bounds, [0.1, 0.5, 0.9]), easy)


def _modes(
    name: str,
    centres: Any,
    sds: Any,
    shares: Any,
    start: Any,
    bounds: Any,
    kind: str = "modes",
    easy: frozenset[str] = NONE,
    scale: float = 5.0,
) -> Target:
    """A mixture of spherical Gaussians."""
    centres, sds, shares = (np.asarray(a, float) for a in (centres, sds, shares))
    dim = centres.shape[1]
    constants = np.log(shares) - dim * np.log(sds) - 0.5 * dim * _LOG_2PI

    def log_density(x):
        square = ((x[None, :] - centres) ** 2).sum(1) / sds**2
        return logsumexp(constants - 0.5 * square)

    truth = [(shares * stats.norm(centres[:, 0], sds).cdf(bound)).sum() for bound in bounds]
    return Target(name, kind, log_density, np.asarray(start, float), 0.0, _below(bounds, truth), easy, scale)


def _funnel(name: str, dim: int, width: float, easy: frozenset[str] = NONE) -> Target:
    """Neal's funnel: v ~ N(0, width^2), the others N(0, e^v)."""

    def log_density(x):
        rest = -0.5 * (x[1:] ** 2).sum() * jnp.exp(-x[0]) - 0.5 * (dim - 1) * x[0]
        return -0.5 * (x[0] / width) ** 2 + rest

    mass = math.log(width) + 0.5 * dim * _LOG_2PI
    bounds = np.array([-1.5, 0.0, 1.5]) * width
    return Target(
        name,
        "funnels",
        log_density,
        np.zeros(dim),
        mass,
        _below(bounds, stats.norm.cdf(bounds / width)),
        easy,
    )


def _banana(name: str, bend: float, width: float, easy: frozenset[str] = NONE) -> Target:
    """x ~ N(0, 1), y ~ N(bend x^2, width^2)."""

    def log_density(x):
        return -0.5 * x[0] ** 2 - 0.5 * ((x[1] - bend * x[0] ** 2) / width) ** 2

    answers = (
        *_below([-1.0, 0.0, 2.0], stats.norm.cdf([-1.0, 0.0, 2.0])),
        Answer("height", lambda x: x[1], np.asarray(bend)),
    )
    return Target(name, "bananas", log_density, np.zeros(2), math.log(width) + _LOG_2PI, answers, easy)


def _line(
    name: str,
    kind: str,
    log_density: Callable,
    law: Any,
    log_mass: float,
    start: float,
    easy: frozenset[str],
    supports: Any = None,
    bounds: Any = None,
) -> Target:
    """A law on a line."""
    bounds = law.ppf([0.1, 0.5, 0.9]) if bounds is None else np.asarray(bounds)
    answers = _below(bounds, law.cdf(bounds))
    return Target(name, kind, log_density, np.asarray(start), log_mass, answers, easy, supports=supports)


def _improper(name: str, log_density: Callable, start: Any, supports: Any = None) -> Target:
    return Target(
        name, "improper", log_density, np.asarray(start, float), math.inf, (), NONE, supports=supports
    )


class _Stepped:
    """A normal law whose right half counts `ratio` times."""

    def __init__(self, ratio: float):
        self.ratio, self.mass = ratio, 0.5 + 0.5 * ratio

    def cdf(self, x: Any) -> Any:
        below = stats.norm.cdf(np.minimum(x, 0.0))
        return (below + self.ratio * (stats.norm.cdf(np.maximum(x, 0.0)) - 0.5)) / self.mass


def _ring(name: str, radius: float, width: float) -> Target:
    r"""$\exp(-(|x| - r)^2 / 2w^2)$ in the plane; the mass by quadrature along the radius."""

    def log_density(x):
        return -0.5 * ((jnp.sqrt((x**2).sum()) - radius) / width) ** 2

    r = np.linspace(1e-6, radius + 12 * width, 200_001)
    mass = 2 * np.pi * np.trapezoid(r * np.exp(-0.5 * ((r - radius) / width) ** 2), r)
    start = np.array([radius, 0.0])
    return Target(name, "bananas", log_density, start, math.log(mass), _below([0.0], [0.5]), NONE)


def _gaussians() -> list[Target]:
    autoregression = 0.9 ** np.abs(np.subtract.outer(np.arange(20), np.arange(20)))
    wide = 10.0 ** np.linspace(-3, 3, 7)
    wider = 10.0 ** np.linspace(-6, 6, 7)
    local = DIAGONAL - {"smc"}
    return [
        _diagonal("normal, 1 dimension", np.zeros(1), np.ones(1), DIAGONAL | {"importance"}),
        _diagonal(
            "normal, 2 dimensions, away from the start", [2.0, -3.0], [1.0, 0.5], DIAGONAL | {"importance"}
        ),
        _diagonal("normal, 10 dimensions", np.zeros(10), np.ones(10)),
        _diagonal("normal, 100 dimensions", np.zeros(100), np.ones(100), local),
        _diagonal("normal, 1000 dimensions", np.zeros(1000), np.ones(1000), CHAINS | {"vi mean-field"}),
        _diagonal("scales from 1e-3 to 1e3", np.zeros(7), wide, CHAINS | {"laplace"}),
        _diagonal("scales from 1e-6 to 1e6", np.zeros(7), wider, NONE),
        _diagonal(
            "normal far from the start", np.full(3, 30.0), np.full(3, 2.0), local - {"vi mean-field"}, 30.0
        ),
        _correlated("correlation .5", _equal(2, 0.5), GAUSSIAN | {"importance"}),
        _correlated("correlation .9", _equal(2, 0.9), GAUSSIAN | {"importance"}),
        _correlated("correlation .99", _equal(2, 0.99), GAUSSIAN - {"smc"}),
        _correlated("correlation .9999", _equal(2, 0.9999), CHAINS | {"laplace"}),
        _correlated("correlation .9 among ten", _equal(10, 0.9), GAUSSIAN - {"smc"}),
        _correlated("autoregression of twenty", autoregression, CHAINS | {"laplace"}),
    ]


def _tails() -> list[Target]:
    return [
        _student("Student, 10 degrees", 10.0, 1, COVERED),
        _student("Student, 4 degrees, 5 dimensions", 4.0, 5),
        _student("Student, 3 degrees", 3.0, 1, SMOOTH),
        _student("Student, 2 degrees, 2 dimensions", 2.0, 2),
        _student("Cauchy", 1.0, 1),
        _student("Cauchy, 5 dimensions", 1.0, 5),
        _product(
            "ten Students of 4 degrees", "tails", stats.t(4), lambda x: -2.5 * jnp.log1p(x**2 / 4), 10, CHAINS
        ),
        _product("double exponential", "tails", stats.laplace, lambda x: -jnp.abs(x), 1, COVERED),
        _product(
            "three logistics", "tails", stats.logistic, lambda x: -x - 2 * jnp.log1p(jnp.exp(-x)), 3, COVERED
        ),
        _product("two laws exp(-x^4)", "tails", stats.gennorm(4), lambda x: -(x**4), 2, COVERED),
        _product("three Gumbels", "tails", stats.gumbel_r, lambda x: -x - jnp.exp(-x), 3, COVERED),
    ]


def _shapes() -> list[Target]:
    return [
        _funnel("funnel, width .5", 3, 0.5, SMOOTH),
        _funnel("funnel, width 1.5", 5, 1.5),
        _funnel("funnel, width 3", 10, 3.0),
        _banana("banana, slightly bent", 0.2, 1.0, COVERED),
        _banana("banana", 1.0, 0.5),
        _banana("banana, thin", 2.0, 0.1),
        _ring("ring", 5.0, 0.5),
    ]


def _many_modes() -> list[Target]:
    angles = 2 * np.pi * np.arange(8) / 8 + 0.2
    eight = 8 * np.stack([np.cos(angles), np.sin(angles)], 1)
    square = 6.0 * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    ones5, ones10 = np.ones((1, 5)), np.ones((1, 10))
    return [
        _modes("two modes that touch", [[-1.0], [1.0]], [1.0, 1.0], [0.5, 0.5], [0.5], [0.0], easy=COVERED),
        _modes("two modes, 6 apart", [[-3.0], [3.0]], [1.0, 1.0], [0.3, 0.7], [2.0], [0.0]),
        _modes("two modes, 20 apart", [[-10.0], [10.0]], [1.0, 1.0], [0.5, 0.5], [8.0], [0.0], scale=10.0),
        _modes(
            "two modes, 20 apart, a tenth in one",
            [[-10.0, 0.0], [10.0, 0.0]],
            [1.0, 1.0],
            [0.1, 0.9],
            [8.0, 0.0],
            [0.0],
            scale=10.0,
        ),
        _modes(
            "two modes of 5 dimensions, 22 apart",
            np.concatenate([-5 * ones5, 5 * ones5]),
            [1.0, 1.0],
            [0.5, 0.5],
            np.full(5, 4.0),
            [0.0],
            scale=8.0,
        ),
        _modes(
            "two modes of 10 dimensions, 25 apart",
            np.concatenate([-4 * ones10, 4 * ones10]),
            [1.0, 1.0],
            [0.4, 0.6],
            np.full(10, 3.5),
            [0.0],
            scale=8.0,
        ),
        _modes("four modes", square, np.ones(4), np.full(4, 0.25), [5.0, 5.0], [0.0], scale=8.0),
        _modes(
            "eight modes on a circle", eight, np.full(8, 0.7), np.full(8, 0.125), eight[0], [0.0], scale=8.0
        ),
        _modes(
            "a spike within a slab", [[0.0], [0.0]], [1.0, 0.01], [0.5, 0.5], [0.7], [-0.1, 0.1], "spikes"
        ),
        _modes(
            "a spike beside the middle of a slab",
            [[0.0, 0.0], [1.5, 1.5]],
            [1.0, 0.01],
            [0.6, 0.4],
            [0.3, 0.0],
            [1.4],
            "hidden",
        ),
        _modes(
            "a spike beside the middle of a slab of 5 dimensions",
            np.concatenate([np.zeros((1, 5)), ones5]),
            [1.0, 0.05],
            [0.6, 0.4],
            np.full(5, 0.1),
            [0.9],
            "hidden",
        ),
        _modes(
            "a wider spike beside the middle of a slab",
            [[0.0, 0.0], [1.5, 1.5]],
            [1.0, 0.1],
            [0.6, 0.4],
            [0.3, 0.0],
            [1.2],
            "spikes",
        ),
        _modes(
            "a spike in a slab of 10 dimensions",
            np.zeros((2, 10)),
            [1.0, 0.05],
            [0.5, 0.5],
            np.full(10, 0.5),
            [-0.3, 0.3],
            "spikes",
        ),
    ]


def _edges() -> list[Target]:
    def stepped(x):
        return _normal(x) + jnp.where(x > 0, math.log(10.0), 0.0)

    def walled(x):
        return jnp.where(x > 0, _normal(x), -jnp.inf)

    def undefined(x):  # the square root of what is negative is not a number
        return _normal(x) + 0.0 * jnp.sqrt(x + 1.0)

    def box(x):
        return jnp.where((jnp.abs(x) < 1).all(), 0.0, -jnp.inf)

    half, cut = stats.halfnorm, stats.truncnorm(-1.0, np.inf)
    cut_mass = 0.5 * _LOG_2PI + math.log(stats.norm.sf(-1.0))
    gamma = stats.gamma
    return [
        _line(
            "a step in a normal",
            "jumps",
            stepped,
            _Stepped(10.0),
            0.5 * _LOG_2PI + math.log(5.5),
            0.5,
            NONE,
            bounds=[-0.5, 0.0, 1.0],
        ),
        _line("a wall at the mode", "jumps", walled, half, 0.5 * _LOG_2PI - math.log(2), 1.0, NONE),
        _line("not a number below -1", "jumps", undefined, cut, cut_mass, 0.5, NONE),
        Target(
            "a flat square",
            "jumps",
            box,
            np.full(2, 0.2),
            math.log(4.0),
            _below([-0.5, 0.5], [0.25, 0.75]),
            NONE,
        ),
        _line("Gamma(2)", "boundaries", lambda x: jnp.log(x) - x, gamma(2), 0.0, 1.0, COVERED, positive),
        _line(
            "Gamma(1/2)",
            "boundaries",
            lambda x: -0.5 * jnp.log(x) - x,
            gamma(0.5),
            0.5 * math.log(math.pi),
            0.5,
            COVERED,
            positive,
        ),
        _line(
            "exponential of mean 1000",
            "boundaries",
            lambda x: -x / 1000.0,
            stats.expon(scale=1000.0),
            math.log(1000.0),
            500.0,
            CHAINS,
            positive,
        ),
        _line(
            "Beta(1/2, 1/2)",
            "boundaries",
            lambda x: -0.5 * (jnp.log(x) + jnp.log1p(-x)),
            stats.beta(0.5, 0.5),
            math.log(math.pi),
            0.4,
            COVERED,
            unit_interval,
        ),
        _line(
            "Beta(20, 2)",
            "boundaries",
            lambda x: 19 * jnp.log(x) + jnp.log1p(-x),
            stats.beta(20, 2),
            math.lgamma(20) + math.lgamma(2) - math.lgamma(22),
            0.8,
            COVERED,
            unit_interval,
        ),
        _line(
            "lognormal of width 2",
            "boundaries",
            lambda x: -0.5 * (jnp.log(x) / 2) ** 2 - jnp.log(x),
            stats.lognorm(2.0),
            math.log(2) + 0.5 * _LOG_2PI,
            1.0,
            DIAGONAL - {"smc"},
            positive,
        ),
    ]


def _impossible() -> list[Target]:
    features = np.array([-2.0, -1.0, 1.0, 2.0])

    def separated(x):  # a logistic regression of separated classes without a prior
        return -jnp.logaddexp(0.0, -jnp.abs(features) * x[0]).sum()

    nearly, df = "nearly improper: a tail of index 1/5", 0.2
    heavy = _student(nearly, df, 1)
    return [
        _improper("flat in one of two directions", lambda x: -0.5 * x[0] ** 2 + 0.0 * x[1], [0.3, 0.3]),
        _improper("flat", lambda x: 0.0 * x[0], [0.3]),
        _improper("a tail 1/x", lambda x: -0.5 * jnp.log1p(x[0] ** 2), [0.3]),
        _improper("a scale with density 1/(1 + x)", lambda x: -jnp.log1p(x), 1.0, positive),
        _improper("separated classes", separated, [0.3]),
        _improper("growing without end", lambda x: x[0] - 0.5 * x[1] ** 2, [0.3, 0.3]),
        heavy._replace(kind="improper"),
        _diagonal("nearly improper: a width of 1e4", [0.0, 0.0], [1.0, 1e4], NONE)._replace(kind="improper"),
    ]


def targets() -> list[Target]:
    """The whole zoo."""
    return [*_gaussians(), *_tails(), *_shapes(), *_many_modes(), *_edges(), *_impossible()]
