"""Probabilistic machine learning: exact where it can be, certified where it cannot.

The subpackages, the verbs (`fit`, `posterior`, `predict`, `infer`, `mcmc`, `resume`, `plot`, `save`, `load`),
the words of models (`model`, `sample`, `plate`, `scan`, ...) and the supports of parameters (`positive`,
`simplex`, ...) are here; `__init__.pyi` lists them. Each is imported on first use.

>>> import tractable as tr
>>> float(tr.distributions.Normal(0.0, 2.0).variance)
4.0
>>> rate = tr.posterior(tr.distributions.Gamma(2.0, 1.0), tr.distributions.Poisson, [3, 5])
>>> float(tr.predict(rate, tr.distributions.Poisson).mean)
3.3333333333333335
"""

from tractable import _configuration
from tractable._lazy import attach
from tractable._version import __version__ as __version__

_configuration.apply()
__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
