"""What was meant, perhaps: names that other libraries give to the same things.

Keywords.    `Normal(mu=...)`, `Gamma(shape=..., scale=...)`: the field that it is called here, and how the
             value is to be changed where the two are not the same number.
Methods.     `logpdf`, `ppf`, `rvs`, ...: the method here.
"""

import difflib
import re
from collections.abc import Callable, Iterable

__all__ = ["call_words", "method_hint", "nearest"]

# name elsewhere -> (name here, relation of the values or nothing); the first that the class has is meant
_KEYWORDS: dict[str, tuple[tuple[str, str], ...]] = {
    "mu": (("loc", ""), ("mean", "")),
    "mean": (("loc", ""),),
    "loc": (("mean", ""),),
    "location": (("loc", ""), ("mean", "")),
    "sigma": (("scale", ""), ("cov", "a covariance matrix"), ("length_scale", "")),
    "std": (("scale", ""),),
    "stddev": (("scale", ""),),
    "sd": (("scale", ""),),
    "var": (("scale", "the square root of it"), ("cov", "a covariance matrix")),
    "variance": (("scale", "the square root of it"), ("cov", "a covariance matrix")),
    "precision": (("scale", "one over the square root of it"), ("cov", "its inverse")),
    "covariance": (("cov", ""),),
    "covariance_matrix": (("cov", ""),),
    "shape": (("concentration", ""),),
    "alpha": (("concentration", ""), ("a", ""), ("rate", "")),
    "beta": (("rate", ""), ("b", ""), ("scale", "")),
    "a": (("concentration", ""), ("low", "")),
    "b": (("rate", ""), ("high", "")),
    "lower": (("low", ""),),
    "upper": (("high", ""),),
    "kappa": (("concentration", ""),),
    "scale": (("rate", "one over it"), ("cov", "a covariance matrix")),
    "rate": (("scale", "one over it"),),
    "lam": (("rate", ""),),
    "lambda_": (("rate", ""),),
    "df": (("degrees", ""),),
    "dof": (("degrees", ""),),
    "nu": (("degrees", ""),),
    "p": (("probs", ""), ("weights", "")),
    "pi": (("probs", ""), ("weights", "")),
    "prob": (("probs", ""),),
    "probs": (("weights", ""),),
    "concentration1": (("a", ""),),
    "concentration0": (("b", ""),),
    "n": (("total", ""),),
    "total_count": (("total", ""),),
    "lengthscale": (("length_scale", ""),),
    "ell": (("length_scale", ""),),
    "sigma2": (("noise", ""),),
    "lr": (("learning_rate", ""),),
    "draws": (("num_draws", ""),),
    "num_samples": (("num_draws", ""), ("shape", "")),
    "n_samples": (("num_draws", ""), ("shape", "")),
    "chains": (("num_chains", ""),),
    "n_chains": (("num_chains", ""),),
    "tune": (("warmup", ""),),
    "num_warmup": (("warmup", ""),),
    "initial_params": (("start", ""),),
    "data": (("args", "a tuple"),),
    "seed": (("key", "a whole number will do"),),
    "random_state": (("key", "a whole number will do"),),
    "rng": (("key", "a whole number will do"),),
    "size": (("shape", ""),),
    "sample_shape": (("shape", ""),),
}

_METHODS: dict[str, str] = {
    "pdf": "prob", "pmf": "prob", "logpdf": "log_prob", "logpmf": "log_prob", "logp": "log_prob",
    "log_density": "log_prob", "ppf": "icdf", "quantile": "icdf", "sf": "survival", "logsf": "log_survival",
    "logcdf": "log_cdf", "isf": "inverse_survival", "rvs": "sample", "draw": "sample", "rsample": "sample",
    "sample_n": "sample", "var": "variance", "stddev": "std", "event_shape": "shape", "batch_shape": "shape",
}  # fmt: skip


def nearest(name: str, known: Iterable[str], most: int = 12) -> str:
    """The names meant, perhaps, or the first of those there are, as a sentence.

    >>> nearest("rian", ["cloudy", "rain"])
    'Did you mean rain?'
    """
    names = list(known)
    close = difflib.get_close_matches(name, names, 3, 0.5)
    if close:
        return f"Did you mean {' or '.join(close)}?"
    return f"It has {', '.join(names[:most])}{', ...' if len(names) > most else ''}."


def call_words(owner: str, call: str, names: Callable[[], Iterable[str]], said: str) -> str | None:
    """What Python says of a wrong `call` of a class or a function, in the one format with the right names.

    >>> said = "Normal.__init__() got an unexpected keyword argument 'mu'"
    >>> call_words("Normal", "Normal.__init__", lambda: ["loc", "scale"], said)
    "`Normal` must be given loc, scale; got 'mu'. Write `loc`."
    """
    if not said.startswith(f"{call}() "):
        return None
    known = [name for name in names() if name not in ("self", "cls")]
    must = f"`{owner}` must be given {', '.join(known) or 'nothing'}"
    wrong = re.search(r"unexpected keyword argument '(\w+)'", said)
    if wrong:
        return f"{must}; got {wrong[1]!r}. {_keyword_hint(wrong[1], known)}".rstrip()
    many = re.search(r"positional arguments? but (\d+) (?:was|were) given", said)
    if many:
        return f"{must}; got {int(many[1]) - ('.' in call)} values in their order."
    missing = re.search(r"missing \d+ required (?:positional|keyword-only) arguments?: (.*)", said)
    if missing:
        seed = " Give a random key, such as `jax.random.key(0)`." if "'key'" in missing[1] else ""
        return f"{must}; got nothing for {missing[1]}.{seed}"
    return None


def method_hint(name: str, has: type) -> str:
    """The method here of a name from elsewhere, as a sentence, or nothing."""
    here = _METHODS.get(name)
    return f"It is `{here}` here." if here is not None and hasattr(has, here) else ""


def _keyword_hint(name: str, fields: list[str]) -> str:
    for here, relation in _KEYWORDS.get(name, ()):
        if here in fields:
            return f"Write `{here}`{': ' + relation if relation else ''}."
    close = difflib.get_close_matches(name, fields, 1, 0.6)
    return f"Write `{close[0]}`." if close else ""
