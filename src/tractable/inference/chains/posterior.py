r"""The result of Markov chains: named draws, how they were made, and how far to trust them.

Draws.       A pytree of arrays `(chains, draws, ...)` on the host, or memory maps on disk.
Errors.      $E[f] \approx \bar f \pm \mathrm{sd}(f)/\sqrt{n_{\mathrm{eff}}}$, with the effective size of the
             values of $f$.
Cost.        The report on all scalars is computed once, when it is first asked for.
References.  Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021).
"""

import dataclasses
from typing import Any

import jax
import jax.random as jr
import numpy as np

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import check, check_count, has_values
from tractable.core.iterate import Ended, Status
from tractable.core.module import field
from tractable.core.types import PyTree
from tractable.core.verdict import Verdict
from tractable.inference.posterior import Posterior, each_draw, remembered, with_target
from tractable.inference.trust.evidence import Evidence
from tractable.inference.trust.verdict import Fault, find_faults, judge

__all__ = ["ChainPosterior"]


class ChainPosterior(Ended, Posterior):
    """Draws of Markov chains with their records; prints as the table of its variables and the verdict."""

    draws: PyTree  # arrays (chains, draws, ...)
    log_density: Any  # (chains, draws)
    info: Any = None  # an `Info` of arrays (chains, draws)
    sampler: Any = None  # as the warm-up left it
    warmup: Any = None
    seconds: float | int = 0.0
    code: Any = Status.completed
    remarks: tuple[str, ...] = field(
        static=True, default=()
    )  # of the driver; each makes the verdict a refusal
    continuation: Any = None  # with which a run goes on
    _is_dependent = True

    def _chains(self) -> PyTree:
        return self.draws

    @property
    def num_chains(self) -> int:
        return int(np.shape(self.log_density)[0])

    @property
    def num_draws(self) -> int:
        """Draws per chain."""
        return int(np.shape(self.log_density)[1])

    @property
    def num_gradients(self) -> int:
        """Evaluations of the density (with its gradient, where it is followed), those of the warm-up too."""
        counts = [getattr(part, "num_gradients", 0) for part in (self.info, self.warmup)]
        return int(sum(np.sum(np.asarray(count)) for count in counts))

    @property
    def verdict(self) -> Verdict:
        """Whether to trust the draws: `ok`, `sentence`, and the `numbers` behind it."""
        return remembered(self, "verdict", lambda: judge(self))

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What is wrong with the draws, the gravest first, and what to do about it."""
        return remembered(self, "faults", lambda: find_faults(self))

    @property
    def log_evidence(self) -> Evidence:
        """By bridge sampling from the draws, which needs the density: that of the run, as it was stated.

        After `load`, `bridge_evidence(log_density, post, key=...)` is given it again.
        """
        return remembered(self, "log_evidence", self._bridged)

    def map(self, function: Any) -> "ChainPosterior":
        """The posterior of `function(draw)`: a pytree of arrays, computed of each draw in one program."""
        return dataclasses.replace(self, draws=each_draw(function, self.draws), continuation=None)

    def thin(self, step: int) -> "ChainPosterior":
        """Every `step`-th draw of each chain."""
        step = check_count("step", step, 1, self.num_draws)
        kept = jax.tree.map(lambda leaf: leaf[:, ::step], (self.draws, self.log_density))
        shape = np.shape(self.log_density)
        info = jax.tree.map(lambda leaf: np.broadcast_to(np.asarray(leaf), shape)[:, ::step], self.info)
        thinned = dataclasses.replace(self, draws=kept[0], log_density=kept[1], info=info, continuation=None)
        return with_target(thinned, self._stated())

    def resume(self, num_draws: int | None = None, **options: Any) -> "ChainPosterior":
        """Go on with the run, as `tractable.resume` does from a file; with the density that it carries."""
        from tractable.inference.chains.mcmc import go_on

        return go_on(self, num_draws, **options)

    def __repr__(self) -> str:
        if not has_values((self.draws, self.log_density)):
            return "Posterior(...)"
        size = f"Posterior of {self.num_chains} x {self.num_draws} draws"
        return f"{size}, {self.num_gradients} gradients, {self.seconds:.3g} s\n{self.summary()!r}"

    def _repr_html_(self) -> str:
        return str(self.summary()._repr_html_())

    def _rebuild(self) -> Rebuild:
        """The map from free numbers to the draws."""
        if hasattr(self._stated(), "rebuild"):
            return self._stated().rebuild
        fix = "Give `bridge_evidence` free real numbers instead."
        known = hasattr(self.continuation, "start") and self._stated() is None
        check(known, "posterior", "a run of a sampler in real space", "other draws", fix)
        return unconstrain(self.continuation.start, self.continuation.supports)[1]

    def _bridged(self) -> Evidence:
        from tractable.inference.evidence.bridge import bridge_evidence

        target = self._stated()
        fix = "Use `bridge_evidence(log_density, post, key=...)`."
        known, alone = hasattr(target, "rebuild"), self._stated() is None
        got = "draws without their density" if alone else "a sampler in a space of its own"
        check(known, "log_evidence", "asked of a run that carries its density in real space", got, fix)
        found = bridge_evidence(target, self, key=jr.key(0))
        return self._evidence(found.value, found.standard_error, found.method, found.code)
