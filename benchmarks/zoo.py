"""`python -m benchmarks zoo [--methods M ...] [--targets T ...] [--seeds N] [--results FILE] [--page FILE]`:
how often verdicts are wrong.

False trust. The verdict is good, and some stated estimate is off by more than four of its stated errors, or
             the target is improper.
False alarm. The verdict is not good, all estimates are right, and the target is easy for the method.
Hidden.      Targets of which no method can know (`_zoo_targets`) count, and are counted apart as well.
Results.     One JSON line per run; runs that the file has already are not repeated, so that a long study is
             made in slices. `--page` writes the table of all results into a page of the documentation.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from benchmarks._zoo_targets import Target, targets
from tractable.core.estimate import Estimate
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.multivariate import MultivariateStudentT
from tractable.inference.chains.mcmc import mcmc
from tractable.inference.curvature.laplace import laplace
from tractable.inference.particles.smc import smc
from tractable.inference.target import FlatTarget
from tractable.inference.variational.pathfinder import pathfinder
from tractable.inference.variational.vi import vi
from tractable.inference.weighted.importance import importance

MOST_ERRORS = 4.0
BEGIN, END = "<!-- zoo: begin -->", "<!-- zoo: end -->"


class Outcome(NamedTuple):
    """One run: what was said, and by how many stated errors the worst estimate is off."""

    method: str
    target: str
    kind: str
    seed: int
    trusted: bool
    worst: float
    proper: bool
    easy: bool
    sentence: str

    @property
    def right(self) -> bool:
        """Whether all estimates are within four stated errors of the truth."""
        return self.proper and self.worst <= MOST_ERRORS

    @property
    def false_trust(self) -> bool:
        return self.trusted and not self.right

    @property
    def false_alarm(self) -> bool:
        return self.easy and self.right and not self.trusted


def _worst(pairs: Iterable[tuple[Estimate, Any]]) -> float:
    """The largest error in stated errors; infinite where an estimate or its error is not a number."""
    gaps = [0.0]
    for found, truth in pairs:
        gap = np.abs(np.asarray(found.value) - np.asarray(truth))
        error = np.asarray(found.standard_error)
        # answers agree to rounding where the error is zero
        ratio = np.where(gap <= 1e-9 * (1 + np.abs(truth)), 0.0, gap / np.where(error > 0, error, 1e-300))
        gaps.append(float(np.where(np.isnan(ratio), np.inf, ratio).max()))
    return max(gaps)


def _answers(target: Target, expectation: Callable) -> list[tuple[Estimate, Any]]:
    return [(expectation(answer.function), answer.truth) for answer in target.answers]


def _chains(target: Target, seed: int) -> tuple[Any, list]:
    post = mcmc(target.log_density, target.start, key=jr.key(seed), supports=target.supports, progress=False)
    return post.verdict, _answers(target, post.expectation)


def _weighted(target: Target, post: Any) -> tuple[Any, list]:
    pairs = _answers(target, post.expectation)
    return post.verdict, [*pairs, (post.log_evidence, target.log_mass)]


def _variational(family: str) -> Callable[[Target, int], tuple[Any, list]]:
    def run(target: Target, seed: int) -> tuple[Any, list]:
        options = {"key": jr.key(seed), "supports": target.supports, "family": family, "max_steps": 10_000}
        return _weighted(target, vi(target.log_density, target.start, **options))

    return run


def _paths(target: Target, seed: int) -> tuple[Any, list]:
    options = {"key": jr.key(seed), "supports": target.supports, "num_paths": 4}
    return _weighted(target, pathfinder(target.log_density, target.start, **options))


def _curved(target: Target, seed: int) -> tuple[Any, list]:
    """The start moves with the seed, as nothing else does."""
    start = jnp.asarray(target.start)
    if target.supports is None:
        start = start + 0.1 * jr.normal(jr.key(seed), start.shape)
    post = laplace(target.log_density, start, supports=target.supports)
    pairs = [(post.log_evidence, target.log_mass)] if post.ok else []
    return post.verdict, pairs


def _real(target: Target) -> tuple[Any, Any]:
    """The target on free numbers, and how a point of it looks to the answers."""
    free, flat = FlatTarget.of(target.log_density, jnp.asarray(target.start), supports=target.supports)
    return free.size, flat


def _particles(target: Target, seed: int) -> tuple[Any, list]:
    size, flat = _real(target)
    prior = Gaussian(jnp.zeros(size), target.scale**2 * jnp.eye(size))

    def log_likelihood(x):
        return flat(x) - prior.log_prob(x)

    post = smc(log_likelihood, prior, key=jr.key(seed))
    seen = [a._replace(function=lambda x, f=a.function: f(flat.rebuild(x)[0])) for a in target.answers]
    return _weighted(target._replace(answers=tuple(seen)), post)


def _proposed(target: Target, seed: int) -> tuple[Any, list]:
    size, flat = _real(target)
    proposal = MultivariateStudentT(
        jnp.asarray(5.0), jnp.zeros(size), (target.scale / 2) ** 2 * jnp.eye(size)
    )
    post = importance(flat, proposal, key=jr.key(seed), num_draws=4000)
    seen = [a._replace(function=lambda x, f=a.function: f(flat.rebuild(x)[0])) for a in target.answers]
    return _weighted(target._replace(answers=tuple(seen)), post)


METHODS: dict[str, Callable[[Target, int], tuple[Any, list]]] = {
    "mcmc": _chains,
    "vi mean-field": _variational("mean_field"),
    "vi full-rank": _variational("full_rank"),
    "laplace": _curved,
    "pathfinder": _paths,
    "smc": _particles,
    "importance": _proposed,
}


def outcome(method: str, target: Target, seed: int) -> Outcome:
    """One run; an error by name is a refusal, as a verdict that is not good."""
    facts = (method, target.name, target.kind, seed)
    easy = method in target.easy
    try:
        verdict, pairs = METHODS[method](target, seed)
        worst = _worst(pairs) if target.proper else 0.0
        return Outcome(*facts, verdict.ok, worst, target.proper, easy, verdict.sentence)
    except ValueError as error:
        return Outcome(*facts, False, 0.0, target.proper, easy, f"ValueError: {error}")


def table(outcomes: Sequence[Outcome]) -> str:
    """A Markdown table: one row per method."""
    rows = [
        "| method | targets | most dimensions | runs | trusted | false trust | without hidden | easy runs | "
        "false alarm |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    sizes = {target.name: np.size(target.start) for target in targets()}
    for method in METHODS:
        mine = [each for each in outcomes if each.method == method]
        easy = [each for each in mine if each.easy and each.right]
        if mine:
            seen = {each.target for each in mine}
            open_ = [each for each in mine if each.kind != "hidden"]
            cells = (
                method, len(seen), max(sizes[name] for name in seen), len(mine), sum(o.trusted for o in mine),
                _rate(sum(o.false_trust for o in mine), len(mine)),
                _rate(sum(o.false_trust for o in open_), len(open_)),
                len(easy), _rate(sum(o.false_alarm for o in easy), len(easy)),
            )  # fmt: skip
            rows.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(rows)


def _rate(count: int, total: int) -> str:
    return f"{count} ({count / max(total, 1):.1%})"


def mistakes(outcomes: Sequence[Outcome]) -> list[str]:
    """The targets and methods at which verdicts were wrong, with counts."""
    lines = []
    for kind in ("false_trust", "false_alarm"):
        found: dict[tuple[str, str], int] = {}
        for each in outcomes:
            if getattr(each, kind):
                found[each.method, each.target] = found.get((each.method, each.target), 0) + 1
        lines += [f"- {kind.replace('_', ' ')}: {m}, {t}: {n}" for (m, t), n in sorted(found.items())]
    return lines


def write_page(page: Path, outcomes: Sequence[Outcome]) -> None:
    """The table and the mistakes, between the marks of the page."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    names, seeds = {o.target for o in outcomes}, {o.seed for o in outcomes}
    head = f"{len(outcomes)} runs on {len(names)} targets, seeds {min(seeds)} to {max(seeds)}."
    body = "\n\n".join([head, table(outcomes), "\n".join(mistakes(outcomes)) or "No verdict was wrong."])
    page.write_text(f"{before}{BEGIN}\n{body}\n{END}{after}", encoding="utf-8")


def _read(path: Path | None) -> list[Outcome]:
    if path is None or not path.exists():
        return []
    zoo = {target.name: target for target in targets()}
    found = [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]
    # what is easy, and for whom, is as the targets say now
    return [
        each._replace(kind=zoo[each.target].kind, easy=each.method in zoo[each.target].easy)
        for each in found
        if each.target in zoo
    ]


def main(options: Sequence[str]) -> None:
    """Run what is asked for and not known yet, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks zoo", description="How often verdicts are wrong."
    )
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--targets", nargs="+", default=[], help="parts of names or kinds of targets")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--results", type=Path, default=None)
    parser.add_argument("--page", type=Path, default=None)
    parser.add_argument("--most", type=int, default=1000, help="the most dimensions")
    chosen = parser.parse_args(options)
    known = _read(chosen.results)
    done = {(o.method, o.target, o.seed) for o in known}
    for target in targets():
        asked = not chosen.targets or any(
            part in (target.name, target.kind) or part in target.name for part in chosen.targets
        )
        if not asked or np.size(target.start) > chosen.most:
            continue
        for method in chosen.methods:
            for seed in range(chosen.seeds):
                if (method, target.name, seed) not in done:
                    known.append(_made(method, target, seed, chosen.results))
        jax.clear_caches()
    print(table(known))
    print("\n".join(mistakes(known)))
    if chosen.page is not None:
        write_page(chosen.page, known)


def _made(method: str, target: Target, seed: int, results: Path | None) -> Outcome:
    made = outcome(method, target, seed)
    word = "FALSE TRUST" if made.false_trust else "FALSE ALARM" if made.false_alarm else "fine"
    print(f"{word:12}{method:15}{target.name:40}{seed:3} {made.worst:8.3g} {made.sentence[:110]}", flush=True)
    if results is not None:
        with results.open("a") as file:
            file.write(json.dumps(made._asdict()) + "\n")
    return made
