"""What a table must have before anything is fitted to it; imports little, so that a fault is told soon."""

from collections.abc import Iterable
from typing import Any

from tractable.tables.files import WrongTable
from tractable.tables.reading import check_columns

__all__ = ["check_asked", "check_count", "check_varies"]

_LEAST = 10  # rows


def check_asked(table: Any, target: str, beside: Iterable[str | None] = (), drop: Iterable[str] = ()) -> None:
    """Refuse a table without the columns that are named, or with a target that nothing can tell."""
    drop = tuple(drop)
    check_columns(table, (target, *(name for name in beside if name is not None), *drop))
    if target in drop:
        raise WrongTable(f"the target must not be left out; got {target!r} for both.")
    values = table[target].dropna()
    if not len(values):
        raise WrongTable(f"the target {target!r} must have values; got none.")
    check_count(len(values))
    check_varies(target, values.iloc[0], bool((values != values.iloc[0]).any()))


def check_count(count: int) -> None:
    """Refuse few rows."""
    if count < _LEAST:
        raise WrongTable(f"there must be at least {_LEAST} rows with a target; got {count}.")


def check_varies(target: str, value: Any, varies: bool) -> None:
    """Refuse a target that has one value."""
    if not varies:
        shown = f"{value:g}" if isinstance(value, float) else repr(value) if isinstance(value, str) else value
        raise WrongTable(f"the target {target!r} must take at least two values; got {shown} in every row.")
