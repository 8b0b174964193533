r"""What should be known of a table before a model is fitted: gaps, identifiers, copies, leaks.

Cost.        Linear in the cells.
"""

from typing import Any

__all__ = ["notes_of"]


def notes_of(frame: Any, description: Any) -> list[Any]:
    """The notes on a described frame."""
    from tractable.tables.description import Note

    notes = []
    for each in description.columns:
        if each.kind == "constant":
            notes.append(
                Note("constant", each.name, f"{each.name!r} has {each.note or 'one value'}: left out.")
            )
        if each.kind == "identifier":
            notes.append(Note("identifier", each.name, f"{each.name!r} names rows: left out."))
    return notes
