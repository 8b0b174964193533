"""Which variational method fits a model: the decision diagram as a function.

Rule.        Exact sums where the latent variables can be enumerated; coordinate ascent where full
             conditionals are conjugate; pathwise gradients where the density can be differentiated and draws
             moved smoothly; score gradients with Markov-blanket factors and control variates for the rest.
Cost.        None.
"""

from typing import NamedTuple

from tractable.core.checks import check, check_count

__all__ = ["Recommendation", "recommend_vi"]

_FULL_RANK_MOST = 100  # beyond this many free numbers a dense factor costs more than it tells
_ROWS_MOST = 100_000  # beyond this many rows a pass over all of them per step is wasteful


class Recommendation(NamedTuple):
    """A method, the call that runs it, and why."""

    method: str
    call: str
    reason: str

    def __repr__(self) -> str:
        return f"{self.method}: {self.call}\n  {self.reason}"


def recommend_vi(
    *,
    conjugate: bool = False,
    enumerable: bool = False,
    differentiable: bool = True,
    dim: int = 1,
    num_rows: int | None = None,
) -> Recommendation:
    """The scheme for a model with these properties.

    `conjugate`: each full conditional is a known family; `enumerable`: the latent variables have few joint
    values; `differentiable`: the log-density has a derivative in all (continuous) latent variables.

    >>> recommend_vi(conjugate=True).method
    'coordinate ascent'
    >>> recommend_vi(differentiable=False).method
    'score gradient'
    """
    dim = check_count("dim", dim)
    check(num_rows is None or num_rows > 0, "num_rows", "positive", num_rows)
    if enumerable:
        reason = "The latent variables can be summed out, block by block, without draws; one block is exact."
        return Recommendation("enumeration", "discrete_cavi(log_joint, blocks=...)", reason)
    if conjugate:
        reason = "Every expectation is in closed form: the bound rises at each sweep and needs no step size."
        call = "bayesian_mixture, variational_regression, topic_shares, factor_cavi"
        return Recommendation("coordinate ascent", call, reason)
    if not differentiable:
        call = 'vi(..., gradient="score") or mean_field_gradient(..., control=True)'
        reason = "Without a derivative only the score remains; conditioning and controls cut its variance."
        return Recommendation("score gradient", call, reason)
    if num_rows is not None and num_rows > _ROWS_MOST:
        call = "vi(..., batch=256, log_prior=...)"
        reason = "Draws can be moved smoothly, and a few rows stand for all of them at each step."
        return Recommendation("pathwise gradient on mini-batches", call, reason)
    small = dim <= _FULL_RANK_MOST
    call = 'vi(..., method="lbfgs")' if small else 'vi(..., family="low_rank") or pathfinder(...)'
    size = "Few" if small else "Many"
    reason = f"Draws can be moved smoothly: the path has the least variance. {size} free numbers: {dim}."
    return Recommendation("pathwise gradient", call, reason)
