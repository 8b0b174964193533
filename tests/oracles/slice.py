"""Slice sampling on lines as nested loops over given uniform numbers; cluster moves by enumeration."""

import itertools

import numpy as np


def slice_sweep(log_density, x, lines, uniforms, max_expansions, max_shrinks=100):
    """The point after one step along `lines` (vectors), the number of densities, and whether it saturated.

    `uniforms(i)` is the number i; the first three rows of `len(lines)` numbers are for the levels, the places
    of the first intervals and the shares of the expansions, and a point drawn as density number k (counting
    all before it) takes the number `3 len(lines) + k`.
    """
    x, count, saturated, num = np.array(x, float), 0, False, len(lines)
    value = log_density(x)
    for k, line in enumerate(lines):
        level = value + np.log(uniforms(k))
        low = -uniforms(num + k)
        high = low + 1
        left = int((max_expansions + 1) * uniforms(2 * num + k))
        right = max_expansions - left
        count += 1
        while log_density(x + low * line) >= level and left > 0:
            low, left, count = low - 1, left - 1, count + 1
        left_cut = log_density(x + low * line) >= level
        count += 1
        while log_density(x + high * line) >= level and right > 0:
            high, right, count = high + 1, right - 1, count + 1
        saturated = saturated or (left_cut and log_density(x + high * line) >= level)
        for _ in range(max_shrinks):
            t = low + uniforms(3 * num + count) * (high - low)
            count += 1
            proposed = log_density(x + t * line)
            if proposed >= level:
                x, value = x + t * line, proposed
                break
            low, high = (t, high) if t < 0 else (low, t)
        else:
            saturated = True
    return x, count, saturated


def potts_log_weights(edges, coupling, weights):
    """All labellings, and the log-weight of each."""
    num_sites, num_states = np.shape(weights)
    labels = np.array(list(itertools.product(range(num_states), repeat=num_sites)))
    logs = np.array([sum(weights[i][k] for i, k in enumerate(row)) for row in labels], float)
    for (a, b), strength in zip(edges, coupling):
        logs += strength * (labels[:, a] == labels[:, b])
    return labels, logs


def cluster_matrix(edges, coupling, weights):
    """The transition matrix of Swendsen-Wang, new by old, summed over all sets of bonds."""
    labels, _ = potts_log_weights(edges, coupling, weights)
    num_sites, num_states = np.shape(weights)
    index = {tuple(row): i for i, row in enumerate(labels)}
    matrix = np.zeros((len(labels), len(labels)))
    for old, row in enumerate(labels):
        for bonds in itertools.product([0, 1], repeat=len(edges)):
            chance = 1.0
            for bonded, (a, b), strength in zip(bonds, edges, coupling):
                p = 1 - np.exp(-strength) if row[a] == row[b] else 0.0
                chance *= p if bonded else 1 - p
            if chance == 0:
                continue
            parts = _components(num_sites, [e for e, bonded in zip(edges, bonds) if bonded])
            for colours in itertools.product(range(num_states), repeat=len(parts)):
                new, odds = np.zeros(num_sites, int), 1.0
                for part, colour in zip(parts, colours):
                    new[part] = colour
                    scores = np.exp(np.sum([weights[i] for i in part], 0))
                    odds *= scores[colour] / scores.sum()
                matrix[index[tuple(new)], old] += chance * odds
    return matrix


def _components(num_sites, edges):
    parts = [{i} for i in range(num_sites)]
    for a, b in edges:
        first, second = (next(p for p in parts if site in p) for site in (a, b))
        if first is not second:
            parts.remove(second)
            first |= second
    return [sorted(part) for part in parts]
