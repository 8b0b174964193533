r"""The posterior of a program: draws of every site by name, what was integrated exactly, and the verdict.

Draws.       Those of the remaining latents come from a method of `inference`; for each of them one exact draw
             of the eliminated latents, so that the whole is one draw of the joint posterior.
Verdict.     That of the method: what was eliminated adds no error.
Predictions. Runs of the same program with the latents of each draw: what was observed is drawn anew, and
             latents of another shape than before (a new group) are drawn from their priors.
Cost.        One program for all draws.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from tractable.core.checks import check
from tractable.core.estimate import Estimate
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.types import Array, Key, PyTree
from tractable.core.verdict import Verdict
from tractable.inference.posterior import Posterior, each_draw, remembered
from tractable.inference.predicted import Predicted
from tractable.programs.explanation import Explanation
from tractable.programs.trace import Program, bind

__all__ = ["Anew", "ProgramPosterior", "Rows", "Stated"]

_DRAWS = 4000  # of rows, where no latent has any


class ProgramPosterior(Posterior):
    """What is known of all sites of a program."""

    draws: dict[str, np.ndarray]
    inner: Posterior | None  # of the remaining latents
    evidence: Estimate | None  # where the method gave it; else it is asked of `inner`
    judgement: Verdict
    explanation: Explanation
    search: Any = None  # a `parameters.Search`, where parameters were sought
    _shown = ("log_evidence", "explanation")

    def _chains(self) -> PyTree:
        return self.draws

    @property
    def _is_dependent(self) -> bool:
        return self.inner is not None and self.inner._is_dependent

    @property
    def verdict(self) -> Verdict:
        """How far to trust the draws."""
        return self.judgement

    @property
    def log_evidence(self) -> Estimate:
        r"""$\log p(y)$, with all latents integrated out."""
        if self.evidence is not None:
            return self.evidence
        assert self.inner is not None
        return self.inner.log_evidence

    @property
    def params(self) -> dict[str, Array]:
        """The parameters of the program and of its guide, at the values that were found."""
        return {} if self.search is None else self.search.params

    @property
    def elbo(self) -> Estimate | None:
        """The lower bound on the log-evidence that a guide reached."""
        return None if self.search is None else self.search.elbo

    def summary(self, names: Any = None, probs: Any = (0.05, 0.5, 0.95)) -> Any:
        """As that of any posterior, with the labels of plates in place of numbers: `theta[Choate]`."""
        found = super().summary(names, probs)
        places = remembered(self, "places", self._places)
        found.index = [places.get(name, name) for name in found.index]
        return found

    def _places(self) -> dict[str, str]:
        """The scalars whose names have labels in them."""
        from tractable.programs.interchange import labelled_names

        return {} if self._stated() is None else labelled_names(self)

    def explain(self) -> Explanation:
        """What was done with each site, and why."""
        return self.explanation

    @takes_key
    def predict(self, model: Any = None, *args: Any, key: Key | None = None, **options: Any) -> Predicted:
        """What the program would give at new arguments: `predict(key=key)` makes the observed rows anew,
        `predict(x=new, key=key)` runs it with other data; a function of a draw is as in `Posterior`."""
        if callable(model):
            return super().predict(model, *args, key=key)
        check(key is not None, "key", "given: rows are drawn", None, "Pass `key=jax.random.key(0)`.")
        bound = self._program()
        if options:
            from tractable.programs.survey import check_arguments

            fresh = {**bound.options, **options}
            bound = bind(bound.model, bound.args, fresh)
            check_arguments(bound)
        latents = {name: self.draws[name] for name in self.explanation.latents}
        shape = next(iter(latents.values())).shape[:2] if latents else (1, _DRAWS)
        assert key is not None
        keys = jax.random.split(key, shape)
        found = each_draw(Anew(bound), (latents, keys))
        return Predicted(found, self.verdict, None)

    @takes_key
    def to_arviz(
        self,
        *,
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        key: Key | None = None,
    ) -> Any:
        """Everything as ArviZ has it, with the plates as dimensions and their labels as coordinates.

        The draws, the log-likelihood of each observed unit and what was observed; with a `key` also
        predictions, and draws of the prior.
        """
        from tractable.programs.interchange import program_to_arviz

        return program_to_arviz(self, coords, dims, key)

    def _program(self) -> Program:
        fix = "It was read from a file: run `infer` again."
        check(self._stated() is not None, "post", "one that carries its program", "draws alone", fix)
        return self._stated().log_density.bound


class Rows(Module):
    """The log-likelihood of each observed unit of a program at one draw of its latents."""

    bound: Program
    latents: tuple[str, ...] = field(static=True)
    observes: bool = field(static=True, default=False)

    def __call__(self, x: Mapping[str, Array]) -> Array:
        import jax.numpy as jnp

        found = self.bound.trace({name: x[name] for name in self.latents}).log_likelihoods
        return jnp.concatenate([rows.reshape(-1) for rows in found.values()])


class Statement(Module):
    """What leave-one-out, comparison and predictions need to know of the program."""

    bound: Program
    pointwise: Rows
    basis: str = field(static=True, default="proper")


class Stated(Module):
    """The program as a posterior carries it."""

    log_density: Statement
    args: tuple = ()

    @staticmethod
    def of(bound: Program, latents: tuple[str, ...]) -> "Stated":
        return Stated(Statement(bound, Rows(bound, latents)))


class Anew(Module):
    """One run with the latents of a draw, in which observed sites are drawn."""

    bound: Program

    def __call__(self, pair: tuple[dict[str, Array], Key]) -> dict[str, Any]:
        latents, key = pair
        found = self.bound.trace(None, key=key, hints=latents, anew=True)
        return found.of_kind("observed", "deterministic")
