"""Write who calls what into `docs/ledger.md`: the column of callers is made from the imports of the source.

A home is a module (`core.iterate`) or one object in it (`core.linalg.psd_factor`). Its callers are the
modules that import it, by its own path or through a package that exports it; a tall list is told by package.

    python tools/ledger.py          # rewrite the page
    python tools/ledger.py --check  # exit 1 where the page is not what the imports say
"""

import ast
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tractable"
PAGE = ROOT / "docs" / "ledger.md"
TALL = 6  # callers up to which each is named


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of the library by its dotted name, without the leading `tractable.`."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@cache
def exports() -> dict[str, dict[str, str]]:
    """For each package the module behind each name that it exports."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for path in [*SOURCE.rglob("__init__.py"), *SOURCE.rglob("__init__.pyi")]:
        package = ".".join(path.relative_to(SOURCE).parts[:-1])
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tractable."):
                home = (node.module or "").removeprefix("tractable.")
                found[package] |= {alias.asname or alias.name: home for alias in node.names}
    return found


@cache
def uses() -> dict[str, set[str]]:
    """For each module, and each `module.name`, the modules that import it."""
    found: dict[str, set[str]] = defaultdict(set)
    for caller, tree in trees().items():
        for node in ast.walk(tree):
            for home in _imported(node):
                if home != caller:
                    found[home].add(caller)
        for home in _attributes(tree):
            found[home].add(caller)
    return found


def callers(home: str) -> list[str]:
    """The modules that import a module or an object, without the packages that only export it."""
    module = home if home in trees() else home.rpartition(".")[0]
    return sorted(caller for caller in uses()[home] if caller != module and not _is_package(caller))


def described(names: list[str]) -> str:
    """The callers by name, or by package with their number where there are many."""
    if len(names) <= TALL:
        return ", ".join(f"`{name}`" for name in names) or "users"
    counts = Counter(name.split(".")[0] for name in names)
    return ", ".join(f"`{package}` ({count})" for package, count in sorted(counts.items()))


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of the table: identity, home, callers, oracle."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and "`" in line]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def rewritten(text: str) -> str:
    """The page with the column of callers made anew."""
    lines = []
    for line in text.splitlines():
        if line.startswith("| ") and "`" in line:
            identity, home, _, oracle = (cell.strip() for cell in line.strip("| ").split(" | "))
            line = f"| {identity} | {home} | {described(callers(home.strip('`')))} | {oracle} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _imported(node: ast.AST) -> list[str]:
    """What an import statement names: modules, and objects by the module that defines them."""
    if isinstance(node, ast.Import):
        return [a.name.removeprefix("tractable.") for a in node.names if a.name.startswith("tractable.")]
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("tractable"):
        return []
    module = (node.module or "").removeprefix("tractable").removeprefix(".")
    found = []
    for alias in node.names:
        whole = f"{module}.{alias.name}".removeprefix(".")
        home = exports().get(module, {}).get(alias.name, module)
        found += [whole] if whole in trees() else [home, f"{home}.{alias.name}"]
    return found


def _attributes(tree: ast.Module) -> list[str]:
    """Objects reached through an imported module: `gaussian.condition` after `import ... as gaussian`."""
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tractable"):
            package = (node.module or "").removeprefix("tractable").removeprefix(".")
            for alias in node.names:
                whole = f"{package}.{alias.name}".removeprefix(".")
                if whole in trees():
                    modules[alias.asname or alias.name] = whole
    reached = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return [
        f"{modules[node.value.id]}.{node.attr}"
        for node in reached
        if isinstance(node.value, ast.Name) and node.value.id in modules
    ]


def _is_package(name: str) -> bool:
    return (SOURCE / Path(*name.split("."), "__init__.py")).exists()


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8")
    after = rewritten(before)
    if "--check" not in sys.argv:
        PAGE.write_text(after, encoding="utf-8")
    elif before != after:
        sys.exit(
            "docs/ledger.md does not list the callers that the imports show: run `python tools/ledger.py`."
        )
