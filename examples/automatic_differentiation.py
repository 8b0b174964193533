"""One derivative five ways: differences, dual numbers, a tape, a formula, and JAX."""

import jax
import jax.numpy as jnp
import numpy as np

from tractable.optim import autodiff as ad

POINT = (1.5, 0.5)


def function(x1, x2):
    """[sin(x1/x2) + x1/x2 - e^x2] [x1/x2 - e^x2]."""
    ratio, power = x1 / x2, ad.exp(x2)
    return (ad.sin(ratio) + ratio - power) * (ratio - power)


def main() -> None:
    print("Reverse mode, as a table of nodes, values, tangents (along x1) and adjoints:")
    trace = ad.trace(function, POINT)
    print(trace, end="\n\n")

    x1, x2 = ad.variables("x1 x2")
    formula = function(x1, x2)
    symbolic = [float(formula.derivative(v)(x1=1.5, x2=0.5)) for v in (x1, x2)]
    print("d/dx1 =", formula.derivative(x1), end="\n\n")

    forward = ad.forward_gradient(function, POINT)
    numeric = ad.central_difference(lambda v: function(float(v[0]), float(v[1])), np.array(POINT))

    def in_jax(v):
        ratio, power = v[0] / v[1], jnp.exp(v[1])
        return (jnp.sin(ratio) + ratio - power) * (ratio - power)

    by_jax = jax.grad(in_jax)(jnp.array(POINT))
    print("Error of forward, central and complex-step differences of the sine at 1:")
    print(ad.step_study(np.sin, np.cos, 1.0), end="\n\n")
    print(ad.check_gradient(in_jax, np.array(POINT), lambda v: trace.gradient))

    for gradient in (trace.gradient, forward, symbolic, numeric, by_jax):
        assert np.allclose(gradient, [3.01184333, -13.72396151], atol=1e-7)
    matrix = ad.hessian(in_jax, np.array(POINT))
    assert np.allclose(matrix @ np.array([1.0, 2.0]), ad.hessian_vector_product(in_jax, POINT, [1.0, 2.0]))


if __name__ == "__main__":
    main()
