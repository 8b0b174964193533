"""Packages that import their modules when a name is first asked for.

`__init__.pyi` lists what a package exports, as plain imports: type checkers and editors read it, and so does
`attach`. Asking for one sampler then does not import sixty files and SciPy. A package that exports an object
with the name of its module (`inference.fit`) means the object; a module that has the name of something of the
top level (`distributions/positive.py`) is not an attribute, whatever was imported before. A name that is not
there is answered with where it is, or with the one nearest to it.
"""

import ast
import difflib
import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["attach"]


class _LazyPackage(ModuleType):
    """A package whose exports are found in `_homes`: name -> module."""

    _homes: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        if name not in self._homes:
            said = f"module {self.__name__!r} has no attribute {name!r}"
            hint = "" if name.startswith("_") else _hint(name, list(self._homes))
            raise AttributeError(f"{said}. {hint}" if hint else said, name=name, obj=self)
        home = importlib.import_module(self._homes[name])
        value = getattr(home, name, home)  # a subpackage is its own export
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # importing a submodule binds it to its name here; an export of that name is what users mean
        if isinstance(value, ModuleType) and self._homes.get(name) == value.__name__:
            value = getattr(value, name, value)
        elif isinstance(value, ModuleType) and name in _top() and name not in self._homes:
            return  # `distributions.positive` would be a module to those who look for the support
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._homes})


def _top() -> dict[str, str]:
    """The exports of the top level."""
    return sys.modules["tractable"].__dict__.get("_homes", {})


# what other libraries call things
_ELSEWHERE = {
    "MultivariateNormal": "Gaussian",
    "MvNormal": "Gaussian",
    "norm": "Normal",
    "StudentsT": "StudentT",
}


def _hint(name: str, known: list[str]) -> str:
    """Where the name is, or which one is near."""
    found = _ELSEWHERE.get(name, name)
    if found in known:
        return f"It is `{found}` here."
    if found in _top():
        return f"It is `tractable.{found}`."
    for stub in sorted(Path(__file__).parent.glob("*/__init__.pyi")):
        if re.search(rf"\bas {re.escape(found)}\b", stub.read_text(encoding="utf-8")):
            return f"It is `tractable.{stub.parent.name}.{found}`."
    lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), lower, 2, 0.75)
    return f"Did you mean {' or '.join(lower[each] for each in close)}?" if close else ""


def attach(package: str, file: str) -> list[str]:
    """Make `package` lazy, with the exports of the stub beside `file`; returns its `__all__`."""
    module = sys.modules[package]
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes: dict[str, str] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            whole = node.module == package  # `from package import submodule`
            homes |= {a.name: f"{package}.{a.name}" if whole else node.module for a in node.names}
    module.__dict__["_homes"] = homes
    module.__class__ = _LazyPackage
    return sorted(homes)
