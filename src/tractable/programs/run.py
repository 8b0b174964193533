r"""One run of a model: what each `sample` gives back, and the record of every site.

Model.       $p(x) = \prod_s p(x_s \mid x_{<s})$ over the sites $s$ in the order in which the function names
             them, times its factors; a site with `obs` is observed, the others are latent.
Values.      A latent takes its value from `values`, or from noise ($x = \mu + L z$ for a normal site, so that
             the run is affine in $z$), or is drawn from its distribution by a stream of its own name.
Plates.      Inside `plate(name, n)` every site has $n$ independent units along a leading axis; nested plates
             are leading axes from the outermost in.
Cost.        That of the model itself; a scan runs as one `lax.scan`, whose step is traced once more to learn
             its sites.
"""

import contextlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_entries
from tractable.core.linalg import psd_factor
from tractable.core.module import Module, field, plates
from tractable.core.types import Array, Key, PyTree
from tractable.distributions.base import Distribution
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.leading_axes import unit_log_probs
from tractable.programs.moving_support import onto_support
from tractable.programs.run_checks import (
    check_names,
    check_shape_of,
    here,
    is_known,
    is_traced,
    parts_of_steps,
    plate_size,
    scan_length,
)

__all__ = ["Innovation", "Plate", "Run", "Site", "current", "recording"]


class Plate(NamedTuple):
    """Independent units: their name, how many there are, and the labels of their places."""

    name: str
    size: int
    labels: tuple | None = None


class Site(Module):
    """What one call of the language gave: `log_probs` holds one number for each unit along `plates`.

    `kind` is "latent", "observed", "fixed" (by `do`), "deterministic", "factor" or "param".
    """

    value: Any
    log_probs: Any
    distribution: Any
    name: str = field(static=True)
    kind: str = field(static=True)
    plates: tuple[Plate, ...] = field(static=True)
    line: str = field(static=True)
    support: Any = None  # as it was before the plates, where its ends may have values


class Innovation(NamedTuple):
    """What a Gaussian vector adds to its mean, with its own covariance, in place of standard noise."""

    value: Any


_running: ContextVar["Run | None"] = ContextVar("run", default=None)


class Run:
    """The state of one run; `values`, `noises` and `fixed` are by name, a `key` draws the rest.

    `hints` are values of latents, taken where their shapes fit; `raws` are free numbers of latents, moved
    onto the support that the run finds; `sizes` are those of plates of which a part is taken; with `anew`,
    observed sites are drawn; with `shapes_only`, latents have no meaningful value.
    """

    def __init__(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        key: Key | None = None,
        observed: Mapping[str, Any] | None = None,
        fixed: Mapping[str, Any] | None = None,
        noises: Mapping[str, Any] | None = None,
        hints: Mapping[str, Any] | None = None,
        raws: Mapping[str, Any] | None = None,
        sizes: Mapping[str, int] | None = None,
        anew: bool = False,
        shapes_only: bool = False,
    ):
        self.values, self.noises = dict(values or {}), dict(noises or {})
        self.observed, self.fixed = dict(observed or {}), dict(fixed or {})
        self.hints, self.anew, self.shapes_only = dict(hints or {}), anew, shapes_only
        self.raws, self.sizes = dict(raws or {}), dict(sizes or {})
        self.key, self.plates, self.sites = key, [], {}
        self._support: Any = None

    # --- the words ---------------------------------------------------------------------------------

    def sample(self, name: str, distribution: Distribution, obs: Any) -> Array:
        self._check_new(name)
        must = "a distribution of `tractable.distributions`"
        given = type(distribution).__name__
        check(isinstance(distribution, Distribution), name, must, given, f"At {here()}.", TypeError)
        spread, self._support = self._in_plates(name, distribution), distribution.support
        obs = self.observed.get(name, obs)
        if name in self.fixed:
            return self._keep(name, "fixed", jnp.asarray(self.fixed[name]), None, spread)
        if self.anew and (obs is not None or name not in self.hints):
            return self._keep(name, "observed", spread.sample(self._stream(name)), None, spread)
        if obs is not None:
            value = self._observed(name, spread, obs)
            return self._keep(name, "observed", value, unit_log_probs(spread, value), spread)
        value, log_probs = self._latent(name, spread)
        return self._keep(name, "latent", value, log_probs, spread)

    def deterministic(self, name: str, value: Any) -> Any:
        self._check_new(name)
        return self._keep(name, "deterministic", value, None, None)

    def factor(self, name: str, log_factor: Any) -> None:
        self._check_new(name)
        self._keep(name, "factor", None, jnp.asarray(log_factor), None)

    def param(self, name: str, start: Any, support: Any) -> Array:
        self._check_new(name)
        value = jnp.asarray(self.values.get(name, self.fixed.get(name, start)), float)
        if self.shapes_only:
            value = value + self._unknown()
        return self._keep(name, "param", value, None, support)

    @contextlib.contextmanager
    def plate(self, name: str, size: int | Sequence) -> Iterator[np.ndarray]:
        count, labels = plate_size(name, size)
        inside = [plate.name for plate in self.plates]
        check(name not in inside, "plate", "a name that no plate around it has", repr(name), f"At {here()}.")
        if name in self.sizes:
            count, labels = self.sizes[name], None
        self.plates.append(Plate(name, count, labels))
        try:
            yield np.arange(count)
        finally:
            self.plates.pop()

    def scan(self, name: str, step: Callable, start: PyTree, xs: PyTree, length: int | None) -> Any:
        count = scan_length(name, xs, length)
        check(not self.plates, "scan", "outside of plates", f"scan {name!r} in plate {self.plates}")
        around = Plate(name, count)

        def stepped(carry: PyTree, inputs: tuple) -> tuple:
            x, values, noises, hints, raws, observed, fixed, key = inputs
            given = {"noises": noises, "hints": hints, "raws": raws, "observed": observed, "fixed": fixed}
            how = {"sizes": self.sizes, "anew": self.anew, "shapes_only": self.shapes_only}
            inner = Run(values, key=key, **given, **how)
            with recording(inner):
                carry, out = step(carry, x)
            return carry, (out, inner.sites)

        names = self._names_in(stepped, start, xs)
        keys = None if self.key is None else jr.split(self._stream(name), count)
        hints = {n: part for n, part in self.hints.items() if np.shape(part)[:1] == (count,)}
        parts = (self.values, self.noises, hints, self.raws, self.observed, self.fixed)
        chosen = ({n: parts_of_steps(n, part[n], count) for n in names if n in part} for part in parts)
        last, (outs, sites) = jax.lax.scan(stepped, start, (xs, *chosen, keys), length=count)
        for inner in names:  # in the order of the step: a dict of the scan has its own
            self._check_new(inner)
            self.sites[inner] = _within(sites[inner], around)
        return last, outs

    @contextlib.contextmanager
    def given(self, observed: Mapping[str, Any], fixed: Mapping[str, Any]) -> Iterator[None]:
        """Values that a model inside of this one brings along; those of the outer one go first."""
        before = self.observed, self.fixed
        self.observed, self.fixed = {**observed, **self.observed}, {**fixed, **self.fixed}
        try:
            yield
        finally:
            self.observed, self.fixed = before
        check_names((*observed, *fixed), self.sites)

    # --- parts -------------------------------------------------------------------------------------

    def _latent(self, name: str, distribution: Distribution) -> tuple[Array, Array]:
        if name in self.noises and isinstance(self.noises[name], Innovation):
            value = distribution.mean + self.noises[name].value
            return value, jnp.zeros(plates(distribution))
        if name in self.noises:
            noise = jnp.asarray(self.noises[name])
            return _moved(name, distribution, noise), unit_log_probs(_standard(distribution), noise)
        if name in self.raws:
            value, log_dets = onto_support(distribution, jnp.asarray(self.raws[name]))
            log_probs = unit_log_probs(distribution, value)
            fits = log_dets.shape == log_probs.shape
            return value, log_probs + (log_dets if fits else log_dets.sum() / log_probs.size)
        if name in self.values:
            value = jnp.asarray(self.values[name])
            check_shape_of(name, distribution, value)
        elif name in self.hints and np.shape(self.hints[name]) == distribution.shape:
            value = jnp.asarray(self.hints[name])
        elif self.shapes_only:
            value = jnp.zeros(distribution.shape, int if distribution.discrete else float) + self._unknown()
        else:
            fix = f"The site has no value: pass a key, as in `key=jax.random.key(0)`. At {here()}."
            check(self.key is not None, "key", f"given: {name!r} is drawn", None, fix)
            value = distribution.sample(self._stream(name))
        return value, unit_log_probs(distribution, value)

    def _unknown(self) -> Array:
        """A number that is traced, so that nothing that is computed of it has a value."""
        assert self.key is not None
        return jr.key_data(self.key).reshape(-1)[0].astype(int) * 0

    def _observed(self, name: str, distribution: Distribution, obs: Any) -> Array:
        if not any(map(is_traced, jax.tree.leaves(obs))):
            obs = np.asarray(obs)
            words = "Number the words: `np.unique(y, return_inverse=True)[1]`."
            first = obs.ravel()[:1].tolist()
            check(obs.dtype.kind in "biuf", name, "numbers", first, f"At {here()}. {words}", TypeError)
            fix = f"It is observed at {here()}; leave such entries out."
            support = self._support
            if support is not None and is_known(support):
                check_entries(name, obs, lambda v: np.asarray(support.contains(v)), support.words, fix)
        value = jnp.asarray(obs)
        check_shape_of(name, distribution, value)
        return value

    def _in_plates(self, name: str, distribution: Distribution) -> Distribution:
        """The distribution with one unit for each place of the plates around it."""
        sizes, own = tuple(plate.size for plate in self.plates), plates(distribution)
        if own == ():
            return distribution.expand(sizes) if sizes else distribution
        fits = len(own) >= len(sizes) and all(a in (1, b) for a, b in zip(own, sizes))
        around = ", ".join(f"{plate.name} of {plate.size}" for plate in self.plates)
        must = f"one distribution, or one for each place of its plates ({around})"
        fix = f"At {here()}. Put its axes in the order of the plates, as in `a[:, None]` or `b[None, :]`."
        check(fits, name, must, f"leading axes {own}", fix)
        return distribution.expand(sizes + own[len(sizes) :])

    def _keep(self, name: str, kind: str, value: Any, log_probs: Any, distribution: Any) -> Any:
        around = tuple(self.plates)
        support = self._support if isinstance(distribution, Distribution) else None
        self.sites[name] = Site(value, log_probs, distribution, name, kind, around, here(), support)
        return value

    def _check_new(self, name: str) -> None:
        got = type(name).__name__
        check(isinstance(name, str), "name", "a string, before all else", got, f"At {here()}.", TypeError)
        fix = f"The other is at {self.sites[name].line}; this one at {here()}." if name in self.sites else ""
        check(name not in self.sites, "name", "used once in a model", repr(name), fix)

    def _stream(self, name: str) -> Key:
        """Random numbers of a site, whatever other sites there are."""
        assert self.key is not None
        return jr.fold_in(self.key, zlib.crc32(name.encode()))

    def _names_in(self, stepped: Callable, start: PyTree, xs: PyTree) -> list[str]:
        """The sites of a step, by tracing it without values."""
        first = jax.tree.map(lambda leaf: leaf[0], xs)
        found: list[str] = []

        def look(carry: PyTree, x: PyTree, key: Key) -> None:
            found.extend(stepped(carry, (x, {}, {}, {}, {}, {}, {}, key))[1][1])

        jax.eval_shape(look, start, first, jr.key(0))
        return found


def current(word: str) -> Run:
    """The run that is under way."""
    run = _running.get()
    fix = "Call it in a function under `@tractable.model`, and give that to `infer`."
    check(run is not None, word, "called while a model runs", "a call outside", fix, RuntimeError)
    assert run is not None
    return run


@contextlib.contextmanager
def recording(run: Run) -> Iterator[Run]:
    """Words go to `run` inside."""
    token = _running.set(run)
    try:
        yield run
    finally:
        _running.reset(token)


def _moved(name: str, distribution: Distribution, noise: Array) -> Array:
    r"""$\mu + L z$."""
    if isinstance(distribution, Normal):
        return distribution.loc + distribution.scale * noise
    check(isinstance(distribution, Gaussian), name, "normal where it is made of noise", type(distribution))
    assert isinstance(distribution, Gaussian)
    return distribution.mean + jnp.einsum("...ij,...j->...i", _root(distribution.cov), noise)


def _root(cov: Array) -> Array:
    factor = psd_factor
    for _ in range(cov.ndim - 2):
        factor = jax.vmap(factor)
    return factor(cov).lower


def _standard(distribution: Distribution) -> Distribution:
    """The distribution of the noise."""
    if isinstance(distribution, Normal):
        return Normal(jnp.zeros_like(distribution.loc), jnp.ones_like(distribution.scale))
    return Normal(jnp.zeros(distribution.shape), jnp.ones(distribution.shape))


def _within(site: Site, around: Plate) -> Site:
    """A site of a step, with all steps along its first axis."""
    return Site(
        site.value, site.log_probs, site.distribution, site.name, site.kind, (around, *site.plates), site.line
    )
