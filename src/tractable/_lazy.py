"""Packages that import their modules when a name is first asked for.

`__init__.pyi` lists what a package exports, as plain imports: type checkers and editors read it, and so does
`attach`. Asking for one sampler then does not import sixty files and SciPy. A package that exports an object
with the name of its module (`inference.fit`) means the object.
"""

import ast
import importlib
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
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        home = importlib.import_module(self._homes[name])
        value = getattr(home, name, home)  # a subpackage is its own export
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # importing a submodule binds it to its name here; an export of that name is what users mean
        if isinstance(value, ModuleType) and self._homes.get(name) == value.__name__:
            value = getattr(value, name, value)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._homes})


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
