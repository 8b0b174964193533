"""Constrained problems and their prices: a portfolio, a dual by hand, a game, and what cannot be solved."""

import numpy as np

from tractable.core.iterate import Status
from tractable.optim.constrained import minimise_constrained
from tractable.optim.convex import ConvexProgram
from tractable.optim.duality import dual_ascent, saddle_point
from tractable.optim.linear_program import LinearProgram
from tractable.optim.quadratic_program import quadratic_program


def main() -> None:
    # Least variance for a required return, without short sales.
    cov = np.array([[0.04, 0.01, 0.0], [0.01, 0.09, 0.02], [0.0, 0.02, 0.16]])
    gain = np.array([0.05, 0.08, 0.12])
    rows, budget = np.r_[-np.eye(3), -gain[None]], (np.ones((1, 3)), [1.0])
    portfolio, more = (
        quadratic_program(2 * cov, np.zeros(3), rows, np.r_[np.zeros(3), -wanted], *budget)
        for wanted in (0.09, 0.0901)
    )
    price = float(portfolio.inequality_multipliers[3])
    print(portfolio, "shares", np.round(np.asarray(portfolio.x), 4), "price of return", price)
    assert portfolio.status is Status.converged
    assert abs(float(more.value - portfolio.value) / 1e-4 - price) < 0.01 * price

    # x^2 with x at least 2: the dual is 2 m - m^2/4, largest at m = 4.
    program = ConvexProgram(lambda x: x**2, lambda x: 2.0 - x)
    for solver in (dual_ascent, saddle_point):
        found = solver(program, 0.0)
        assert np.allclose([found.state, found.inequality_multipliers[0]], [2.0, 4.0], atol=1e-6)
    print(program.report(2.0, 4.0))

    # Rock, paper, scissors, shifted to be positive: the value of the game is 1/0.5 - 2 = 0.
    game = LinearProgram(np.ones(3), [[2, 1, 3], [3, 2, 1], [1, 3, 2]], np.ones(3))
    assert abs(float(game.solve().value) - 0.5) < 1e-12
    assert abs(float(game.dual().solve().value) - 0.5) < 1e-12

    nearest = minimise_constrained(lambda x: x @ x, [3.0, 0.0], inequality=lambda x: 1.0 - x[0] * x[1])
    print(nearest)
    assert np.allclose(np.asarray(nearest.state), 1.0, atol=1e-6)
    nothing = quadratic_program([[2.0]], [0.0], [[-1.0], [1.0]], [-2.0, 1.0])
    print(nothing)
    assert nothing.status is Status.infeasible


if __name__ == "__main__":
    main()
