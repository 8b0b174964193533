r"""The reduced density of a program by brute force, from its log-joint alone.

Identity.    With discrete values $z$ and the remaining latents fixed, $f(x) = \log p(x, z, \phi, y)$ is
             quadratic in the Gaussian latents: at any $x$, with $\Lambda = -\nabla^2 f$,
             $\log \int e^f = f + \frac12 g^\top \Lambda^{-1} g + \frac D2 \log 2\pi - \frac12 \log|\Lambda|$;
             then the sum over all $z$. Two points $x$ must agree, or $f$ is not quadratic.
"""

import itertools
from dataclasses import dataclass
from unittest import mock

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.special import logsumexp

from tractable.core import support
from tractable.programs import gaussian_part
from tractable.programs.reduced import reduce
from tractable.programs.structure import find_structure
from tractable.programs.survey import survey

TOLERANCE = 1e-9
_STEP = 1e-5  # of differences


@dataclass
class Compared:
    """`kind` says what was eliminated; `value` and `want` are the densities where the remaining latents are
    `remaining`."""

    kind: str
    value: float
    want: float
    brute: "BruteForce"
    reduced: object
    remaining: dict


class BruteForce:
    """All discrete assignments, and for each the Gaussian integral of the log-joint."""

    def __init__(self, bound, facts, structure):
        self.structure, sites = structure, facts.sites
        shapes = {name: sites[name].shape for name in facts.latents}
        ranges = [
            range(sites[name].ends[0], sites[name].ends[1] + 1)
            for name in structure.discrete
            for _ in range(sites[name].size)
        ]
        self.assignments = (
            np.array(list(itertools.product(*ranges)), int).reshape(-1, len(ranges))
            if ranges
            else np.zeros((1, 0), int)
        )
        blank = {name: jnp.zeros(shapes[name]) for name in structure.gaussian}
        flat, self.natural = ravel_pytree(blank)
        self.dim = flat.size

        def log_joint(x, z, remaining, bound):
            parts = np.split(np.arange(z.size), np.cumsum([sites[n].size for n in structure.discrete])[:-1])
            whole = {n: z[own].reshape(shapes[n]) for n, own in zip(structure.discrete, parts)}
            return bound.log_joint({**remaining, **whole, **self.natural(x)})

        def slope(x, *given):
            value, found = jax.value_and_grad(log_joint)(x, *given)
            return found, (value, found)

        def quadratic(x, *given):
            curve, (value, found) = jax.jacfwd(slope, has_aux=True)(x, *given)
            return value, found, curve

        over = jax.vmap(quadratic if self.dim else log_joint, in_axes=(None, 0, None, None))
        self.compiled, self.bound = jax.jit(over), bound

    def terms(self, remaining, x):
        """For each assignment: the log of its integral, and the mean and covariance of the Gaussian part."""
        found = self.compiled(x, self.assignments, remaining, self.bound)
        if not self.dim:
            count = len(self.assignments)
            return np.asarray(found), np.zeros((count, 0)), np.zeros((count, 0, 0))
        value, slope, curve = map(np.asarray, found)
        precision = -0.5 * (curve + curve.swapaxes(1, 2))
        assert (np.linalg.eigvalsh(precision) > 0).all(), "the Gaussian part has no finite integral"
        step = np.linalg.solve(precision, slope[..., None])[..., 0]
        logs = value + 0.5 * (slope * step).sum(1) - 0.5 * np.linalg.slogdet(precision)[1]
        return logs + 0.5 * self.dim * np.log(2 * np.pi), x + step, np.linalg.inv(precision)

    def __call__(self, remaining, x):
        return logsumexp(self.terms(remaining, x)[0])

    def moments(self, remaining):
        """Mean and covariance of all eliminated numbers, discrete ones first."""
        logs, means, covs = self.terms(remaining, np.zeros(self.dim))
        probs = np.exp(logs - logsumexp(logs))
        values = np.concatenate([self.assignments, means], 1)
        mean = probs @ values
        cov = (probs[:, None] * (values - mean)).T @ (values - mean)
        own = self.assignments.shape[1]
        cov[own:, own:] += np.einsum("a,aij->ij", probs, covs)
        return mean, cov


def values_of(rng, facts, structure):
    """Random values of the remaining latents."""
    found = {}
    for name in structure.remaining:
        site = facts.sites[name]
        value = rng.normal(size=site.shape)
        if site.support in (support.positive, support.NonNegative()):
            value = np.exp(0.3 * value)
        elif site.support == support.simplex:
            value = np.exp(value) / np.exp(value).sum()
        else:
            assert site.support == support.real, (name, site.support)
        found[name] = jnp.asarray(value)
    return found


def compare(bound, rng, sparse=False):
    """Assert that the reduced density and a derivative of it are those of brute force, at two points."""
    facts = survey(bound)
    structure = find_structure(facts)
    reduced = reduced_by(bound, facts, structure, values_of(rng, facts, structure), sparse)
    brute = BruteForce(bound, facts, structure)
    ours = jax.jit(jax.value_and_grad(lambda remaining, reduced: reduced(remaining)))
    for _ in range(2):
        at, other = (values_of(rng, facts, structure) for _ in range(2))
        along = jax.tree.map(lambda a, b: b - a, at, other)  # stays in the support
        value, slope = ours(at, reduced)
        wants = [brute(at, rng.normal(size=brute.dim)) for _ in range(2)]
        np.testing.assert_allclose(value, wants, rtol=TOLERANCE, atol=TOLERANCE, err_msg=str(structure))
        moved = [jax.tree.map(lambda a, b, h=h: a + h * b, at, along) for h in (_STEP, -_STEP)]
        x = np.zeros(brute.dim)
        want = (brute(moved[0], x) - brute(moved[1], x)) / (2 * _STEP)
        found = sum(np.vdot(slope[name], along[name]) for name in at)
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5, err_msg=f"derivative; {structure}")
    kind = " and ".join(k for k in ("discrete", "gaussian") if getattr(structure, k)) or "neither"
    return Compared(kind, float(value), wants[0], brute, reduced, at)


def reduced_by(bound, facts, structure, start, sparse):
    """With `sparse`, small Gaussian parts too take the sparse route."""
    if not sparse:
        return reduce(bound, facts, structure, start)
    with (
        mock.patch.object(gaussian_part, "_SMALL", 0),
        mock.patch.object(gaussian_part, "choose_route", return_value="sparse"),
    ):
        return reduce(bound, facts, structure, start)


def assert_exact_draws(compared, key, count=4000):
    """Assert that means and products of exact draws are those of brute force, by their standard errors."""
    brute, names = compared.brute, compared.brute.structure.eliminated
    draw = jax.jit(jax.vmap(lambda key, reduced: reduced.restored(key, compared.remaining), (0, None)))
    draws = draw(jr.split(key, count), compared.reduced)
    order = [*brute.structure.discrete, *sorted(brute.structure.gaussian)]  # as a dict is flattened
    assert sorted(order) == sorted(names)
    flat = np.concatenate([np.asarray(draws[name]).reshape(count, -1) for name in order], 1)
    mean, cov = brute.moments(compared.remaining)
    gaps = flat - mean
    products = gaps[:, :, None] * gaps[:, None, :]
    for found, want in ((gaps, np.zeros_like(mean)), (products, cov)):
        error = found.std(0) / np.sqrt(count)
        # a value of small probability may not have been drawn: then there is no spread to compare with
        assert (np.abs(found.mean(0) - want) < 5 * error + 5 / count).all(), compared.brute.structure
