r"""The table of one bag: the product of its factors, likelihoods and messages.

Groups.      A pass over a large table costs the same whether the operand has four cells or four thousand:
             factors of a bag are first multiplied with each other as long as their product stays small.
Cost.        One pass over the bag per group of factors, per likelihood and per child.
References.  Huang and Darwiche (1996), inference in belief networks: a procedural guide.
"""

from typing import no_type_check

import numba
import numpy as np

from tractable.messages.junction_axes import apply_operand, merge_axes

__all__ = ["close", "combine", "open_separator", "walk_space"]

GROUP_CELLS = 4096  # 32 kB: the product of a group stays in the nearest cache

# `no_type_check` keeps run-time type checkers from wrapping what numba has to read
_compiled = numba.njit(nogil=True, cache=True)


@_compiled
@no_type_check
def combine(add, plan, b, sizes, clamp, potentials, soft, sent, table, stride_of, walk):
    """The product of the factors, likelihoods and messages of bag `b`; the sum of their log-ranges."""
    dims, strides, steps = walk
    low, high, variables = plan.bag_start[b], plan.bag_start[b + 1], plan.bag_variables
    fresh = True
    begin, wide = plan.factor_start[b], 0.0
    while begin < plan.factor_start[b + 1]:
        end = _group(plan, b, begin, sizes, table.size, stride_of)
        _apply_group(add, fresh, plan, b, begin, end, sizes, clamp, potentials, table, stride_of, walk)
        for k in range(begin, end):
            wide += potentials[2][plan.factors[k]]
        begin, fresh = end, False
    for k in range(low + plan.separator[b], high):
        v = variables[k]
        if soft[1][v] >= 0:
            stride_of[v] = 1
            m = merge_axes(variables, low, high, sizes, stride_of, dims, strides)
            apply_operand(add, fresh, table, soft[0], soft[1][v], dims, strides, steps, m)
            stride_of[v] = 0
            fresh, wide = False, wide + soft[2][v]
    for k in range(plan.child_start[b], plan.child_start[b + 1]):
        c = plan.children[k]
        open_separator(plan, c, sizes, stride_of)
        m = merge_axes(variables, low, high, sizes, stride_of, dims, strides)
        apply_operand(add, fresh, table, sent[0], sent[1][c], dims, strides, steps, m)
        close(variables, plan.bag_start[c], plan.bag_start[c] + plan.separator[c], stride_of)
        fresh, wide = False, wide + sent[2][c]
    if fresh:
        table[:] = 0.0 if add else 1.0
    return wide


@_compiled
@no_type_check
def walk_space(plan):
    """Room for the merged axes of the bag with the most variables."""
    rank = 1
    for b in range(plan.parent.size):
        rank = max(rank, plan.bag_start[b + 1] - plan.bag_start[b])
    return np.empty(rank, np.int64), np.empty(rank, np.int64), np.zeros(rank, np.int64)


@_compiled
@no_type_check
def open_separator(plan, c, sizes, stride_of):
    stride, start = 1, plan.bag_start[c]
    for k in range(start + plan.separator[c] - 1, start - 1, -1):
        v = plan.bag_variables[k]
        stride_of[v] = stride
        stride *= sizes[v]


@_compiled
@no_type_check
def close(variables, low, high, stride_of):
    for k in range(low, high):
        stride_of[variables[k]] = 0


@_compiled
@no_type_check
def _group(plan, b, begin, sizes, cells, marks):
    """Where the factors that are multiplied with each other first end: their product has few cells."""
    end, product = begin, 1
    limit = min(GROUP_CELLS, cells // 8)
    while end < plan.factor_start[b + 1]:
        f, grown = plan.factors[end], product
        for k in range(plan.scope_start[f], plan.scope_start[f + 1]):
            v = plan.scope_variables[k]
            if marks[v] == 0:
                marks[v] = 1
                grown *= sizes[v]
        if end > begin and grown > limit:
            close(plan.scope_variables, plan.scope_start[f], plan.scope_start[f + 1], marks)
            break
        product, end = grown, end + 1
    for k in range(begin, end):
        f = plan.factors[k]
        close(plan.scope_variables, plan.scope_start[f], plan.scope_start[f + 1], marks)
    return end


@_compiled
@no_type_check
def _apply_group(add, fresh, plan, b, begin, end, sizes, clamp, potentials, table, stride_of, walk):
    """Multiply the factors from `begin` to `end` into the table: at once, or through their own product."""
    low, high = plan.bag_start[b], plan.bag_start[b + 1]
    if end == begin + 1:
        _apply_factor(
            add, fresh, plan, plan.factors[begin], plan.bag_variables, low, high, sizes, clamp, potentials,
            table, stride_of, walk,
        )  # fmt: skip
        return
    zero = np.int64(0)  # a literal would be a type of its own, and compiled apart
    held, count, cells = np.empty(high - low, np.int64), zero, 1
    for k in range(begin, end):
        f = plan.factors[k]
        for i in range(plan.scope_start[f], plan.scope_start[f + 1]):
            stride_of[plan.scope_variables[i]] = 1
    for k in range(low, high):
        v = plan.bag_variables[k]
        if stride_of[v] == 1:
            stride_of[v] = 0
            held[count] = v
            count += 1
            cells *= sizes[v]
    product = np.empty(cells)
    for k in range(begin, end):
        _apply_factor(
            add,
            k == begin,
            plan,
            plan.factors[k],
            held,
            zero,
            count,
            sizes,
            clamp,
            potentials,
            product,
            stride_of,
            walk,
        )
    stride = 1
    for k in range(count - 1, -1, -1):
        stride_of[held[k]] = stride
        stride *= sizes[held[k]]
    m = merge_axes(plan.bag_variables, low, high, sizes, stride_of, walk[0], walk[1])
    apply_operand(add, fresh, table, product, zero, walk[0], walk[1], walk[2], m)
    close(held, zero, count, stride_of)


@_compiled
@no_type_check
def _apply_factor(
    add, fresh, plan, f, variables, low, high, sizes, clamp, potentials, table, stride_of, walk
):
    at = potentials[1][f] + _open_factor(plan, f, clamp, stride_of)
    m = merge_axes(variables, low, high, sizes, stride_of, walk[0], walk[1])
    apply_operand(add, fresh, table, potentials[0], at, walk[0], walk[1], walk[2], m)
    close(plan.scope_variables, plan.scope_start[f], plan.scope_start[f + 1], stride_of)


@_compiled
@no_type_check
def _open_factor(plan, f, clamp, stride_of):
    """Set the strides of a factor's axes; return the offset of its clamped states."""
    stride, shift = 1, 0
    for k in range(plan.scope_start[f + 1] - 1, plan.scope_start[f] - 1, -1):
        v = plan.scope_variables[k]
        stride_of[v] = stride
        shift += clamp[v] * stride
        stride *= plan.sizes[v]
    return shift
