"""One rule, many questions: messages on a tree of five variables, a long chain, a loop and a puzzle."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.messages.chain import Chain, forward_backward
from tractable.messages.chain_paths import best_path, sample_paths
from tractable.messages.constraints import from_clauses
from tractable.messages.loopy import loopy
from tractable.messages.maximum import most_probable
from tractable.messages.potentials import Table
from tractable.messages.tree import joint_by_clamping, propagate

FACTORS = {
    "f1": Table.from_values(["x1", "x3"], [[0.3, 0.2], [0.1, 0.4]]),
    "f2": Table.from_values(["x2", "x3"], [[0.1, 0.5], [0.2, 0.2]]),
    "f3": Table.from_values(["x3", "x4", "x5"], [[[0.1, 0.0], [0.1, 0.1]], [[0.1, 0.0], [0.2, 0.4]]]),
}


def main() -> None:
    beliefs = propagate(FACTORS, root="x5")
    for source, target in beliefs.plan.towards:
        print(f"{source} -> {target}: {beliefs.message(source, target).round(4)}")
    print(beliefs.marginal("x5"))
    print(joint_by_clamping(FACTORS, "x1", "x5"))
    best = most_probable(FACTORS)
    print(best)
    clamped = propagate(FACTORS, {"x5": 1})

    loop = {**FACTORS, "f4": Table.from_values(["x1", "x2"], [[1.5, 0.5], [0.5, 1.5]])}
    print(loopy(loop))

    generator = np.random.default_rng(0)
    chain = Chain(generator.normal(size=(5_000, 2)), jnp.log(jnp.array([[0.95, 0.05], [0.1, 0.9]])))
    smooth = forward_backward(chain)
    print(smooth)
    path, draw = best_path(chain).paths, sample_paths(chain, jr.key(0))[0]
    print("states agree with the best path:", float((path == draw).mean()))

    formula = from_clauses([[1, 2, -3], [-1, 3, 4], [-2, -4, 5], [-5, 1, 2]])
    print(formula.count(), "solutions, one of them", formula.solve())

    assert np.isclose(np.exp(beliefs.total), 0.33)
    assert np.allclose(beliefs.marginal("x3").probs, [0.1090909, 0.8909091], atol=1e-7)
    assert np.isclose(np.exp(clamped.total), 0.18)
    assert best.assignment == {"x1": 1, "x2": 0, "x3": 1, "x4": 1, "x5": 1}
    assert np.allclose(smooth.log_totals, smooth.log_total)
    assert formula.count() == len(list(formula.brute_force()))


if __name__ == "__main__":
    main()
