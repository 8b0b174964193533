r"""Parameters in groups: a method of its own for each, or none, which freezes them.

Rule.        A function of the path of an array (`layers.0.weight`) names its group; the update of a group is
             that of its method on its arrays alone.
Cost.        That of the methods; the gradient of what is frozen is not computed where nothing else needs it.
"""

from collections.abc import Callable, Hashable
from typing import Any

import jax
import optax

from tractable.core.checks import check
from tractable.core.module import field
from tractable.optim.gradient import FirstOrder, Schedule

__all__ = ["Groups"]


class Groups(FirstOrder):
    """A method for each group of parameters; None is for those that stay.

    >>> from tractable.optim import Adam, GradientDescent
    >>> def group(path):
    ...     return "head" if path.startswith("head") else "body"
    >>> method = Groups({"head": Adam(1e-2), "body": None}, group)
    """

    learning_rate: Schedule = field(show=False, default=1.0)  # of the whole: each has its own
    methods: dict[str, FirstOrder | None]  # pyright: ignore[reportGeneralTypeIssues]
    group_of: Callable[[str], str] = field(static=True)  # pyright: ignore[reportGeneralTypeIssues]

    def __init__(self, methods: dict[str, Any], group_of: Callable[[str], str]):
        check(bool(methods), "methods", "a method for at least one group", "none")
        for name, method in methods.items():
            known = method is None or isinstance(method, FirstOrder)
            fix = "Use None for a group that stays."
            check(
                known, "methods", "first-order methods", f"{name!r}: {type(method).__name__}", fix, TypeError
            )
        self.learning_rate, self.methods, self.group_of = 1.0, methods, group_of

    def direction(self) -> optax.GradientTransformation:
        rules: dict[Hashable, optax.GradientTransformation] = {
            name: optax.set_to_zero() if method is None else method.transformation()
            for name, method in self.methods.items()
        }
        return optax.multi_transform(rules, self._names)

    def transformation(self) -> optax.GradientTransformation:
        return self.direction()

    def _names(self, params: Any) -> Any:
        def name(path: Any, _: Any) -> str:
            text = jax.tree_util.keystr(path, simple=True, separator=".")
            found = self.group_of(text)
            known = ", ".join(map(repr, self.methods))
            check(found in self.methods, "group_of", f"one of {known} for {text!r}", repr(found))
            return found

        return jax.tree_util.tree_map_with_path(name, params)
