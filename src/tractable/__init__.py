"""Probabilistic machine learning: exact where it can be, certified where it cannot.

>>> import tractable as tr
>>> float(tr.distributions.Normal(0.0, 2.0).variance)
4.0
"""

import importlib
from typing import Any

from tractable import _configuration
from tractable._version import __version__

__all__ = ["__version__"]

_SUBPACKAGES = (
    "bijections", "core", "datasets", "distributions", "estimators", "gp", "graphs", "inference", "kernels",
    "messages", "optim", "plots", "supervised",
)  # fmt: skip
_VERBS = {
    "fit": "tractable.inference.fit",
    "load": "tractable.core.storage",
    "mcmc": "tractable.inference.chains.mcmc",
    "resume": "tractable.inference.chains.mcmc",
    "save": "tractable.core.storage",
}

_configuration.apply()


def __getattr__(name: str) -> Any:
    """Import a subpackage, or the home of a verb, on first use: `import tractable` stays cheap."""
    if name in _SUBPACKAGES:
        return importlib.import_module(f"tractable.{name}")
    if name in _VERBS:
        return getattr(importlib.import_module(_VERBS[name]), name)
    raise AttributeError(f"module 'tractable' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({"__version__", *_SUBPACKAGES, *_VERBS})
