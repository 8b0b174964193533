r"""Binary image denoising with an Ising prior: ICM, Gibbs, mean field, loopy belief propagation, minimum cut.

Model.       $p(x \mid y) \propto e^{-E}$, $E = h\sum_i x_i - \beta\sum_{ij} x_i x_j - \eta\sum_i x_i y_i$
             over pixels $\pm 1$ and pairs beside or below each other. With the local field
             $\theta_i = \eta y_i - h$ and the neighbours $N(i)$:
Updates.     ICM $x_i = \mathrm{sign}(\theta_i + \beta\sum_{N(i)} x_j)$ (ties stay; $E$ never rises).
             Gibbs $P(x_i = 1) = \sigma(2\theta_i + 2\beta\sum x_j)$. Mean field
             $m_i = \tanh(\theta_i + \beta\sum m_j)$ (the bound never falls). Belief propagation, in half
             log-odds, $\tanh u_{j \to i} = \tanh\beta\,\tanh(\theta_j + \sum_{k \ne i} u_{k \to j})$ and
             $\langle x_i\rangle = \tanh(\theta_i + \sum_j u_{j \to i})$: exact on one row of pixels.
Minimum cut. For $\beta \ge 0$ the least energy of all is a minimum cut between $+1$ and $-1$.
Cost.        A sweep is linear in the pixels, half of them at once (a chessboard has two colours).
References.  Besag (1986); Bishop (2006), section 8.3.3; Greig, Porteous and Seheult (1989), minimum cut.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from tractable.core.checks import as_float, check, check_count, check_option, offender
from tractable.core.iterate import Run, Status, run, run_until
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.numerics import xlogy
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Bool, Float, Int, Key, Scalar
from tractable.graphs.ising import grid_edges, grid_name, ising_field
from tractable.graphs.markov_field import MarkovField
from tractable.inference.variational.cavi import never_falls

__all__ = ["Denoised", "IsingImage", "denoise"]

_METHODS = ("icm", "gibbs", "mean_field", "loopy", "cut")
Image = Float[Array, "rows columns"]


class IsingImage(Module):
    r"""The Ising posterior of an image $y$ of $\pm 1$ (or of truth values).

    `coupling` is $\beta$, `attachment` $\eta$ and `bias` $h$.
    """

    observed: Float[Array, "rows columns"]
    coupling: Scalar
    attachment: Scalar
    bias: Scalar

    def __init__(self, image: ArrayLike, coupling: Any = 1.0, attachment: Any = 2.1, bias: Any = 0.0):
        values = np.asarray(image)
        values = np.where(values, 1.0, -1.0) if values.dtype == bool else np.asarray(values, float)
        check(values.ndim == 2 and values.size > 0, "image", "a matrix of pixels", f"shape {values.shape}")
        ok = np.abs(values) == 1
        if not ok.all():
            check(
                False,
                "image",
                "made of -1 and 1, or of truth values",
                offender(values, ok),
                "Use `2 * x - 1`.",
            )
        self.observed = jnp.asarray(values)
        self.coupling = as_float("coupling", coupling)
        self.attachment, self.bias = as_float("attachment", attachment), as_float("bias", bias)

    @property
    def local(self) -> Image:
        r"""$\theta_i = \eta y_i - h$."""
        return self.attachment * self.observed - self.bias

    def energy(self, image: ArrayLike) -> Scalar:
        """$E(x, y)$; of means $m$, the expected energy under independent pixels."""
        x = jnp.asarray(image, self.observed.dtype)
        pairs = (x[1:] * x[:-1]).sum() + (x[:, 1:] * x[:, :-1]).sum()
        return -self.coupling * pairs - (self.local * x).sum()

    def field(self) -> MarkovField:
        """The same posterior as a Markov field, for exact inference on narrow images."""
        rows, columns = self.observed.shape
        sites = [(r, c) for r in range(rows) for c in range(columns)]
        local, beta = np.asarray(self.local), float(self.coupling)
        fields = {grid_name(r, c): float(local[r, c]) for r, c in sites}
        return ising_field(grid_edges(rows, columns), fields, coupling=beta, names=list(fields))


class Denoised(Module):
    """A cleaned image of -1 and 1, the probability of 1 of each pixel where known, and how it was found."""

    image: Int[Array, "rows columns"]
    probability: Float[Array, "rows columns"] | None
    energy: Scalar
    run: Run = field(show=False)
    method: str = field(static=True)

    @property
    def status(self) -> Status:
        return self.run.status

    @property
    def verdict(self) -> str:
        """How it was found, in a sentence."""
        return "Exact: no image has less energy." if self.method == "cut" else self.status.sentence


@takes_key
def denoise(
    image: ArrayLike | IsingImage,
    method: str = "icm",
    *,
    key: Key | None = None,
    max_steps: int = 200,
    warmup: int = 50,
    damping: float = 0.0,
    tol: float = 1e-8,
    **parameters: Any,
) -> Denoised:
    r"""Clean an image of $\pm 1$; `parameters` are those of `IsingImage`.

    `icm` finds a local minimum of the energy from the image itself, `cut` the least of all ($\beta \ge 0$).
    `gibbs` (needs a `key`; `max_steps` sweeps after `warmup`), `mean_field` and `loopy` find the probability
    of each pixel and choose its more probable value. `damping` in $[0, 1)$ keeps part of the old messages.

    >>> noisy = np.ones((5, 5))
    >>> noisy[2, 2] = -1
    >>> int(denoise(noisy).image.sum())
    25
    """
    check_option("method", method, _METHODS)
    model = image if isinstance(image, IsingImage) else IsingImage(image, **parameters)
    steps = check_count("max_steps", max_steps)
    check(0 <= damping < 1, "damping", "from 0 to 1, without 1", damping)
    if method == "cut":
        return _cut(model)
    if method == "gibbs":
        fix = "Pass `key=jax.random.key(0)`."
        if key is None:
            raise ValueError(f"`key` must be given for method 'gibbs'; got none. {fix}")
        found = _gibbs(model, key, steps, check_count("warmup", warmup, least=0))
        return _judged(model, found.state[1] / steps, found, method)
    if method == "icm":
        found = _icm(model, steps)
        return Denoised(found.state.astype(int), None, model.energy(found.state), found, method)
    if method == "mean_field":
        found = _mean_field(model, steps, jnp.asarray(tol))
        return _judged(model, (1 + found.state) / 2, found, method)
    found = _loopy(model, steps, jnp.asarray(tol), jnp.asarray(damping))
    return _judged(model, (1 + jnp.tanh(model.local + found.state.sum(0))) / 2, found, method)


def _judged(model: IsingImage, probability: Image, found: Run, method: str) -> Denoised:
    best = jnp.where(probability >= 0.5, 1, -1)
    return Denoised(best, probability, model.energy(best), found, method)


def _around(x: Image) -> Image:
    """The sum over the neighbours of each pixel."""
    padded = jnp.pad(x, 1)
    return padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]


def _chessboard(model: IsingImage) -> Bool[Array, "rows columns"]:
    rows, columns = model.observed.shape
    return jnp.asarray((np.arange(rows)[:, None] + np.arange(columns)[None]) % 2 == 0)


def _half_sweeps(model: IsingImage, x: Image, update: Any) -> Image:
    """`update(total field, old)` on the white and then on the black pixels, which touch only each other."""
    for colour in (_chessboard(model), ~_chessboard(model)):
        x = jnp.where(colour, update(model.local + model.coupling * _around(x), x), x)
    return x


@program
def _icm(model: IsingImage, max_steps: int) -> Run:
    def step(x):
        x = _half_sweeps(model, x, lambda total, old: jnp.where(total == 0, old, jnp.sign(total)))
        return x, model.energy(x)

    return run_until(step, model.observed, max_steps=max_steps, tol=0.0)


@program
def _gibbs(model: IsingImage, key: Key, sweeps: int, warmup: int) -> Run:
    """The last image, and the sum over sweeps of the conditional probabilities of +1."""

    def step(state, key):
        x, total, _ = state
        keys = jr.split(key)
        seen = jnp.zeros_like(x)
        for colour, each in ((_chessboard(model), keys[0]), (~_chessboard(model), keys[1])):
            chance = jax.nn.sigmoid(2 * (model.local + model.coupling * _around(x)))
            drawn = jnp.where(jr.uniform(each, x.shape) < chance, 1.0, -1.0)
            x, seen = jnp.where(colour, drawn, x), jnp.where(colour, chance, seen)
        return (x, total + seen, seen), model.energy(x)

    start, zeros = model.observed, jnp.zeros_like(model.observed)
    key_warm, key_run = jr.split(key)
    warm = run(step, (start, zeros, zeros), jr.split(key_warm, warmup))
    return run(step, (warm.state[0], zeros, zeros), jr.split(key_run, sweeps))


@program
def _mean_field(model: IsingImage, max_steps: int, tol: Array) -> Run:
    def bound(m):
        entropy = -sum(xlogy(p, p).sum() for p in ((1 + m) / 2, (1 - m) / 2))
        return entropy - model.energy(m)

    def step(m):
        m = _half_sweeps(model, m, lambda total, old: jnp.tanh(total))
        return m, bound(m)

    found = run_until(step, model.observed, max_steps=max_steps, tol=tol)
    return Run(found.state, found.trace, found.num_steps, never_falls(found.trace, found.code))


@program
def _loopy(model: IsingImage, max_steps: int, tol: Array, damping: Array) -> Run:
    """Messages into each pixel from above, below, left and right; reports the largest change."""

    def step(u):
        total = model.local + u.sum(0)
        # what a pixel sends up leaves out what came from above, and so on
        cavity = jnp.tanh(total[None] - u)
        sent = jnp.arctanh(jnp.tanh(model.coupling) * cavity)
        up, down, left, right = (jnp.pad(each, 1) for each in sent)
        received = (down[:-2, 1:-1], up[2:, 1:-1], right[1:-1, :-2], left[1:-1, 2:])
        new = damping * u + (1 - damping) * jnp.stack(received)
        return new, jnp.abs(new - u).max()

    start = jnp.zeros((4, *model.observed.shape))
    return run_until(
        step, start, max_steps=max_steps, tol=tol, settled=lambda u, value, before: jnp.abs(value) <= tol
    )


def _cut(model: IsingImage) -> Denoised:
    r"""The least energy by maximum flow: capacities are rounded to $2^{-29}$ of their largest sum."""
    beta = float(model.coupling)
    check(beta >= 0, "coupling", "zero or positive for method 'cut'", beta)
    local = np.asarray(model.local, float).reshape(-1)
    rows, columns = model.observed.shape
    place = np.arange(local.size).reshape(rows, columns)
    pairs = [(place[1:], place[:-1]), (place[:, 1:], place[:, :-1])]
    first, second = (np.concatenate([pair[i].reshape(-1) for pair in pairs]) for i in (0, 1))
    source, sink = local.size, local.size + 1
    tails = np.concatenate([first, second, np.full(local.size, source), place.reshape(-1)])
    heads = np.concatenate([second, first, place.reshape(-1), np.full(local.size, sink)])
    ties = np.full(2 * first.size, beta)
    capacity = 2 * np.concatenate([ties, np.maximum(local, 0), np.maximum(-local, 0)])
    unit = 2**29 / max(capacity[2 * first.size :].sum(), capacity.max(), 1e-300)
    whole = np.rint(capacity * unit).astype(np.int32)
    graph = sparse.csr_matrix((whole, (tails, heads)), shape=(sink + 1, sink + 1))
    residual = graph - csgraph.maximum_flow(graph, source, sink).flow
    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    side = csgraph.breadth_first_order(residual, source, return_predecessors=False)
    best = np.full(local.size + 2, -1)
    best[side] = 1
    x = jnp.asarray(best[: local.size].reshape(rows, columns))
    value = model.energy(x)
    done = Run(x, value[None], jnp.asarray(1), jnp.asarray(int(Status.completed)))
    return Denoised(x, None, value, done, "cut")
