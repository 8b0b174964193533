r"""`regression`: a formula and a table state a program, and `infer` solves it.

Model.       That of `regression_program` with the priors of `regression_priors`; the family says how the
             response follows the linear predictor.
Answers.     In a gaussian family coefficients and effects of groups are integrated exactly, so that one
             number (without groups) or two (with one effect of groups) are left for quadrature; other
             families go where `infer` sends them.
Cost.        That of `infer`.
References.  Capretto et al. (2022), "Bambi"; Buerkner (2017), "brms", for what is asked of formulas.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from tractable._hints import nearest
from tractable.core.checks import check
from tractable.core.keys import takes_key
from tractable.core.module import field
from tractable.core.types import Key
from tractable.inference.posterior import each_draw, remembered, with_target
from tractable.inference.predicted import Predicted
from tractable.inference.trust.chain_report import ChainReport, examine
from tractable.programs.formula import Formula, explains_all, read_formula, user_frame
from tractable.programs.infer import infer
from tractable.programs.language import Model
from tractable.programs.posterior import Anew, ProgramPosterior, Stated
from tractable.programs.regression_families import checked_response, family_of
from tractable.programs.regression_priors import described, scaled_priors
from tractable.programs.regression_program import (
    EXPECTED,
    Effects,
    LinearProgram,
    as_data,
    named_draws,
)
from tractable.programs.statement import Statement, state
from tractable.programs.trace import Program, bind

__all__ = ["RegressionPosterior", "regression"]

_OWN = ("centred_intercept", "slopes", "coefficients", "Intercept", EXPECTED)


@takes_key
def regression(
    formula: str,
    frame: Any,
    *,
    key: Key,
    family: str = "gaussian",
    correlated: bool = True,
    prior_scale: float | int = 2.5,
    **options: Any,
) -> "RegressionPosterior":
    """The posterior of the regression that `formula` states of the table `frame`.

    `family` is "gaussian", "student", "poisson", "negative_binomial", "bernoulli", "binomial" or "gamma".
    Effects of the same groups, `(1 + x | group)`, are correlated unless `correlated=False`. `prior_scale` is
    the 2.5 of the priors, which `posterior.priors` prints; other `options` are those of `infer`.

    >>> table = {"y": [1.1, 1.9, 3.2, 3.9, 5.1, 6.0], "x": [0, 1, 2, 3, 4, 5]}
    >>> post = regression("y ~ x", table, key=0)
    >>> post.priors
    Intercept (at the means of the columns) ~ Normal(3.533, 4.254)
    x                                       ~ Normal(0, 2.491)
    sigma                                   ~ HalfNormal(4.254)
    >>> bool(abs(post["x"].mean() - 0.99) < 0.02)
    True
    """
    check(prior_scale > 0, "prior_scale", "positive", prior_scale)
    family_of(family)
    read = read_formula(formula, frame, user_frame())
    y, trials = checked_response(read.response_name, family, read.response)
    groups = tuple(Effects.of(each, correlated) for each in read.columns.groups)
    program = LinearProgram(family, read.response_name, read.labels, read.has_intercept, groups)
    _check_names(program)
    priors = scaled_priors(read, family, y, trials, float(prior_scale))
    bound = bind(
        Model(program), (), {"columns": as_data(read.columns, priors, trials), "priors": priors, "y": y}
    )
    found = _inferred(bound, read, family, y, key, options)
    own = [getattr(found, each.name) for each in dataclasses.fields(ProgramPosterior)]
    post = RegressionPosterior(*own, stated=program, priors=described(program, priors))
    return with_target(post, _FormulaStated(found._stated().log_density, found._stated().args, read, priors))


def _inferred(
    bound: Program, read: Formula, family: str, y: np.ndarray, key: Key, options: dict[str, Any]
) -> ProgramPosterior:
    try:
        return infer(bound, key=key, **options)
    except ValueError as error:
        # without remainder the density grows without bound as the noise goes to zero
        if family_of(family).link != "identity" or not explains_all(read.columns, read.has_intercept, y):
            raise
        must = "of values that the formula does not explain to the last digit"
        fix = "Leave terms or groups out: of the noise nothing could be learnt."
        raise ValueError(f"`{read.response_name}` must be {must}; got no remainder. {fix}") from error


class RegressionPosterior(ProgramPosterior):
    """What is known of a regression: its coefficients are named as in the formula."""

    stated: Any = field(static=True, default=None)  # a `LinearProgram`
    priors: Any = field(static=True, default=None)  # `Priors`
    _shown = ("log_evidence", "explanation", "priors")

    @property
    def statement(self) -> Statement:
        """The program in mathematics."""
        return state(self.program)

    @property
    def program(self) -> Program:
        """The program with its data, for `infer` and the rest of `programs`."""
        return self._program()

    def __getitem__(self, name: str) -> np.ndarray:
        """The draws of a coefficient (`x1`), of one effect (`1|group[a]`) or of all (`1|group`)."""
        leaves = self._leaves()
        if name in leaves or name in self.draws:
            return leaves[name] if name in leaves else self.draws[name]
        check(
            False, "name", f"one of {', '.join(list(leaves)[:12])}", repr(name), nearest(name, list(leaves))
        )
        raise AssertionError

    @takes_key
    def predict(self, frame: Any = None, *args: Any, key: Key | None = None, **options: Any) -> Predicted:
        """The response, and its mean (`expected`), at the rows of another table, or of the one fitted.

        A group that was not fitted has an effect drawn from what is known of the groups. `trials` are those
        of a binomial family, one where nothing is said.
        """
        if callable(frame):
            return super().predict(frame, *args, key=key)
        check(key is not None, "key", "given: rows are drawn", None, "Pass `key=jax.random.key(0)`.")
        assert key is not None
        known, data = self._program(), {}
        program = dataclasses.replace(self.stated, predicting=True)
        observed = None
        if frame is None:
            data, observed = known.options["columns"], {program.response: np.asarray(known.options["y"])}
        else:
            columns = self._formula().at(frame)
            priors = self._stated().priors
            trials = _trials(options.pop("trials", None), columns.num_rows)
            data = as_data(columns, priors, trials)
            fresh = [
                Effects.of(group, each.correlated) for each, group in zip(program.groups, columns.groups)
            ]
            program = dataclasses.replace(program, groups=tuple(fresh))
        check(not options, "options", "`trials`, or none", ", ".join(options))
        given = {"columns": data, "priors": known.options["priors"]}
        latents = {name: self.draws[name] for name in self.explanation.latents}
        keys = jax.random.split(key, next(iter(latents.values())).shape[:2])
        found = each_draw(Anew(bind(Model(program), (), given)), (latents, keys))
        return Predicted({name: found[name] for name in (program.response, EXPECTED)}, self.verdict, observed)

    def _formula(self) -> Formula:
        self._program()  # or it says why not
        return self._stated().formula

    def _leaves(self) -> dict[str, np.ndarray]:
        return remembered(self, "named", lambda: named_draws(self.stated, self.draws))

    def _places(self) -> dict[str, str]:
        return {}  # names are those of the formula already

    def _examined(self, probs: Sequence[float]) -> ChainReport:
        return examine(self._leaves(), probs)

    def _chosen(self, names: Sequence[str]) -> list[str]:
        check(not isinstance(names, str), "names", "a list of names", repr(names), f"Pass [{names!r}].")
        rows: list[str] = []
        for name in names:
            found = [each for each in self.names if each == name or each.startswith(f"{name}[")]
            check(bool(found), "names", "among the variables", repr(name), nearest(name, self.names))
            rows += found
        return rows


class _FormulaStated(Stated):
    """The program as a posterior carries it, with the formula that can read further tables."""

    formula: Any = field(static=True, default=None)
    priors: Any = field(default=None)


def _trials(trials: Any, count: int) -> np.ndarray | None:
    return None if trials is None else np.broadcast_to(np.asarray(trials, float), (count,))


def _check_names(program: LinearProgram) -> None:
    """No two things of one name."""
    own: Mapping[str, Any] = family_of(program.family).own(np.ones(()))
    for name in (program.response, *program.labels):
        fix = f"Rename the column: `frame.rename(columns={{{name!r}: ...}})`."
        check(
            name not in (*_OWN, *own), "formula", "free of names that the program has itself", repr(name), fix
        )
