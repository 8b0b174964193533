r"""Factorisations as text: parsed into factors or a directed graph, and printed again.

Grammar.     `[left side =] factor factor ...`, a factor being `name(a, b)` or `name(a | b, c)`; between them
             spaces, `*` or nothing. The left side, such as `p(a, b) =` or `p(a, b) ∝ 1/Z`, must name all
             variables.
Examples.    `p(x4|x3)p(x3|x2,x1)p(x2)p(x1)`, `f1(x1,x2)f2(x2,x3,x4)f3(x3,x4)`.
Cost.        Linear in the text.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tractable.core.checks import check
from tractable.graphs.dag import DAG

__all__ = ["Factor", "parse_dag", "parse_factors", "print_dag", "print_factors"]

_FACTOR = re.compile(r"\s*[*·]?\s*([^\W\d]\w*)\s*\(([^()|]*)(?:\|([^()|]*))?\)")
_RESERVED = re.compile(r"[(),|]")


@dataclass(frozen=True)
class Factor:
    """A factor by its name and the variables it depends on; those `given` stand behind the bar."""

    name: str
    scope: tuple[str, ...]
    given: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """The variables in front of the bar."""
        return tuple(name for name in self.scope if name not in self.given)

    def __str__(self) -> str:
        bar = f"|{','.join(self.given)}" if self.given else ""
        return f"{self.name}({','.join(self.targets)}{bar})"


def parse_factors(text: str) -> tuple[Factor, ...]:
    """The factors of a product, in the order of the text.

    >>> [factor.scope for factor in parse_factors("f1(x1, x2) f2(x2, x3, x4) f3(x3, x4)")]
    [('x1', 'x2'), ('x2', 'x3', 'x4'), ('x3', 'x4')]
    """
    left, product = _sides(text)
    found, position = [], 0
    while product[position:].strip():
        match = _FACTOR.match(product, position)
        if match is None:
            near = product[position : position + 20].strip()
            fix = "Write factors such as `p(a|b,c)` or `f1(a,b)` one after the other."
            check(False, "text", "a product of factors", f"{near!r} at character {position}", fix)
        else:
            found.append(_factor(*match.groups()))
            position = match.end()
    check(len(found) > 0, "text", "a product of at least one factor", repr(text))
    repeated = sorted({str(factor) for factor in found if found.count(factor) > 1})
    check(not repeated, "text", "made of different factors", f"{', '.join(repeated)} more than once")
    if left is not None:
        stated, used = set(left.scope), {name for factor in found for name in factor.scope}
        check(stated == used, "text", f"about the variables of {left} alone", sorted(stated ^ used))
    return tuple(found)


def parse_dag(text: str) -> DAG:
    """The directed graph of a product of conditionals, one for each variable.

    >>> dag = parse_dag("p(x4|x3)p(x3|x2,x1)p(x2)p(x1)")
    >>> dag.parents("x3"), print_dag(dag)
    (('x2', 'x1'), 'p(x4|x3)p(x3|x2,x1)p(x2)p(x1)')
    """
    families: dict[str, tuple[str, ...]] = {}
    for factor in reversed(parse_factors(text)):  # children are written first
        single = len(factor.targets) == 1
        check(single, "text", "made of conditionals of one variable each", str(factor), "Use the chain rule.")
        (name,) = factor.targets
        check(name not in families, "text", f"a product with one conditional of {name!r}", "two")
        families[name] = factor.given
    missing = sorted({parent for given in families.values() for parent in given} - set(families))
    check(
        not missing, "text", "a product with a conditional of each variable", f"none of {', '.join(missing)}"
    )
    return DAG(families)


def print_dag(dag: DAG, name: str = "p") -> str:
    """The product of conditionals of a directed graph, children first: what `parse_dag` reads."""
    return print_factors(
        Factor(name, (child, *dag.parents(child)), dag.parents(child)) for child in reversed(dag.names)
    )


def print_factors(factors: Iterable[Factor]) -> str:
    """A product of factors as text: what `parse_factors` reads."""
    listed = list(factors)
    for factor in listed:
        odd = [name for name in factor.scope if _RESERVED.search(name) or name != name.strip() or not name]
        check(not odd, "names", "without brackets, commas, bars and outer spaces", odd)
    return "".join(map(str, listed))


def _sides(text: str) -> tuple[Factor | None, str]:
    """What stands left of the equals sign, if there is one, and the product."""
    parts = re.split(r"=|∝", text)
    check(len(parts) <= 2, "text", "a product with at most one equals sign", repr(text))
    product = re.sub(r"^\s*1\s*/\s*Z\b", "", parts[-1])
    if len(parts) == 1:
        return None, product
    match = _FACTOR.fullmatch(parts[0].rstrip())
    if match is None:
        check(False, "text", "with a left side such as `p(a, b)`", repr(parts[0]))
    return (None if match is None else _factor(*match.groups())), product


def _factor(name: str, targets: str, given: str | None) -> Factor:
    behind = _variables(given) if given is not None else ()
    scope = (*_variables(targets), *behind)
    check(len(set(scope)) == len(scope), "text", "made of factors that name a variable once", scope)
    return Factor(name, scope, behind)


def _variables(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    check(all(names), "text", "with a name at each side of a comma", repr(text))
    return names
