"""A posterior as ArviZ has it: draws, records, log-likelihood, predictions, what was observed, coordinates.

Names.       What was observed is `y` in every group, and its axis `row`; variables keep their names.
Cost.        The log-likelihood and the predictions of all draws; the import of ArviZ.
"""

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tractable.core.types import Key
from tractable.inference.posterior import Posterior

__all__ = ["bundled", "records_of", "to_arviz"]

_RECORDS = {
    "acceptance_rate": "acceptance",
    "n_steps": "num_gradients",
    "diverging": "diverging",
    "reached_max_treedepth": "saturated",
    "energy": "energy",
}


def to_arviz(
    post: Posterior,
    coords: Mapping[str, Any] | None,
    dims: Mapping[str, Sequence[str]] | None,
    key: Key | None,
) -> Any:
    """See `Posterior.to_arviz`."""
    groups = {"posterior": post._leaves()}
    if records := records_of(post):
        groups["sample_stats"] = records
    groups |= _model_groups(post, key)
    names = {name: list(axes) for name, axes in (dims or {}).items()}
    places = {name: np.asarray(values) for name, values in (coords or {}).items()}
    if "log_likelihood" in groups:
        names.setdefault("y", ["row"])
        places.setdefault("row", np.arange(groups["log_likelihood"]["y"].shape[2]))
    return bundled(groups, places, names)


def bundled(groups: dict[str, Any], places: dict[str, Any], names: dict[str, Any]) -> Any:
    """The groups as one object of ArviZ: `places` along dimensions, `names` of the axes of variables."""
    library = _arviz()
    old = library.__name__ == "arviz" and library.__version__.startswith("0.")
    options: dict[str, Any] = {"coords": places, "dims": names} if names or places else {}
    return library.from_dict(**groups, **options) if old else library.from_dict(groups, **options)


def records_of(post: Any) -> dict[str, np.ndarray]:
    """What the steps of chains recorded."""
    if not hasattr(post, "log_density"):
        return {}
    shape = np.shape(post.log_density)
    found = {"lp": np.asarray(post.log_density)}
    if post.info is not None:
        parts = {theirs: getattr(post.info, ours) for theirs, ours in _RECORDS.items()}
        found |= {name: np.broadcast_to(np.asarray(part), shape) for name, part in parts.items()}
    return found


def _model_groups(post: Posterior, key: Key | None) -> dict[str, dict[str, np.ndarray]]:
    """What the likelihood of the run gives."""
    pointwise = getattr(getattr(post._stated(), "log_density", None), "pointwise", None)
    if pointwise is None:
        return {}
    groups = {"log_likelihood": {"y": post.log_likelihoods()}}
    if pointwise.observes:
        groups["observed_data"] = {"y": np.asarray(post._stated().args[-1])}
        if key is not None:
            groups["posterior_predictive"] = {"y": np.asarray(post.predict(key=key).draws)}
    return groups


def _arviz() -> ModuleType:
    for name in ("arviz", "arviz_base"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:  # it is there, and lacks something itself
                raise
    raise ModuleNotFoundError(
        "`to_arviz` must have ArviZ installed; got none. Run `pip install tractable[arviz]`."
    )
