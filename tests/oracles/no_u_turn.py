"""The length of a no-U-turn trajectory by brute force: each balanced subtree is looked at when complete."""

import numpy as np


def trajectory_length(gradient, position, momentum, step_size, forwards, max_depth):
    """How many leapfrog steps are made, and whether the path turned, for given directions."""
    path = [(np.array(position), np.array(momentum))]
    made = 0
    for depth in range(max_depth):
        half, turned = [], False
        end = path[-1] if forwards[depth] else path[0]
        for _ in range(2**depth):
            end = leapfrog(gradient, *end, step_size if forwards[depth] else -step_size)
            half.append(end)
            made += 1
            if any_complete_subtree_turns(half):
                turned = True
                break
        if turned:
            return made, True
        path = path + half if forwards[depth] else half[::-1] + path
        if turns(path):
            return made, True
    return made, False


def leapfrog(gradient, position, momentum, step_size):
    momentum = momentum + 0.5 * step_size * gradient(position)
    position = position + step_size * momentum
    return position, momentum + 0.5 * step_size * gradient(position)


def any_complete_subtree_turns(half):
    """Aligned subtrees of two leaves or more that end with the newest leaf."""
    count, size, found = len(half), 2, False
    while count % size == 0:
        found |= turns(half[count - size :])
        size *= 2
    return found


def turns(path):
    total = sum(p for _, p in path) - 0.5 * (path[0][1] + path[-1][1])
    return bool(path[0][1] @ total <= 0 or path[-1][1] @ total <= 0)
