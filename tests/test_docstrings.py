"""The examples in docstrings are true."""

import doctest
import importlib
import pkgutil

import pytest

import tractable

PACKAGES = sorted(module.name for module in pkgutil.iter_modules(tractable.__path__))


def modules_of(name: str) -> list[str]:
    """The module or package and everything inside it."""
    found = importlib.import_module(f"tractable.{name}")
    inside = pkgutil.walk_packages(getattr(found, "__path__", []), f"{found.__name__}.")
    return [found.__name__, *(module.name for module in inside)]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_docstring_example_is_true(package):
    results = {name: doctest.testmod(importlib.import_module(name)).failed for name in modules_of(package)}
    assert {name: failed for name, failed in results.items() if failed} == {}
