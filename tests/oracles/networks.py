"""Slow and obvious: all directed acyclic graphs, counts by loops, evidence of rows by enumeration."""

import itertools
import math


def all_dags(names):
    """Every directed acyclic graph over a few names, as a mapping from names to parents."""
    pairs = list(itertools.combinations(names, 2))
    for choice in itertools.product((None, 0, 1), repeat=len(pairs)):
        parents = {name: [] for name in names}
        for (a, b), way in zip(pairs, choice):
            if way is not None:
                parents[(b, a)[way]].append((a, b)[way])
        if is_acyclic(parents):
            yield parents


def is_acyclic(parents):
    left = {name: set(given) for name, given in parents.items()}
    while left:
        roots = [name for name, given in left.items() if not given]
        if not roots:
            return False
        left = {name: given - set(roots) for name, given in left.items() if name not in roots}
    return True


def family_counts(rows, child, given, states):
    """Counts N[joint state of the parents][state of the child] of rows: dictionaries with a weight."""
    table = {j: dict.fromkeys(states[child], 0.0) for j in itertools.product(*(states[g] for g in given))}
    for row, weight in rows:
        table[tuple(row[g] for g in given)][row[child]] += weight
    return table


def family_score(kind, rows, child, given, states, size=10.0):
    """The score of one family, from its definition."""
    table = family_counts(rows, child, given, states)
    k, total = len(states[child]), sum(weight for _, weight in rows)
    if kind in ("bdeu", "k2"):
        a = 1.0 if kind == "k2" else size / (len(table) * k)
        score = 0.0
        for cells in table.values():
            score += math.lgamma(k * a) - math.lgamma(k * a + sum(cells.values()))
            score += sum(math.lgamma(a + n) - math.lgamma(a) for n in cells.values())
        return score
    fit = sum(n * math.log(n / sum(c.values())) for c in table.values() for n in c.values() if n > 0)
    price = {"bic": math.log(total) / 2, "aic": 1.0, "log_likelihood": 0.0}[kind]
    return fit - price * len(table) * (k - 1)


def dag_score(kind, rows, parents, states, size=10.0):
    return sum(family_score(kind, rows, c, given, states, size) for c, given in parents.items())


def expected_counts(tables, scopes, sizes, row):
    """Evidence of a row of codes (-1 is missing) and expected counts of all families: all completions."""
    free = [v for v, code in enumerate(row) if code < 0]
    evidence, counts = 0.0, [{} for _ in scopes]
    for values in itertools.product(*(range(sizes[v]) for v in free)):
        full = list(row)
        for v, value in zip(free, values):
            full[v] = value
        cells = [tuple(full[v] for v in scope) for scope in scopes]
        weight = math.prod(float(table[cell]) for table, cell in zip(tables, cells))
        evidence += weight
        for found, cell in zip(counts, cells):
            found[cell] = found.get(cell, 0.0) + weight
    return evidence, [{cell: n / evidence for cell, n in found.items()} for found in counts]
