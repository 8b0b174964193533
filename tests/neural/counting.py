"""The work of a program, counted from its expression: numbers computed, each loop as often as it runs."""

import jax
import numpy as np


def work(function, *shapes) -> float:
    """Of a function at arguments of these shapes."""
    return _work(jax.make_jaxpr(function)(*shapes).jaxpr)


def _work(jaxpr) -> float:
    return sum(_equation(equation) for equation in jaxpr.eqns)


def _equation(equation) -> float:
    parameters, name = equation.params, equation.primitive.name
    size = float(sum(np.prod(out.aval.shape) for out in equation.outvars))
    if name == "scan":
        return parameters["length"] * _work(parameters["jaxpr"].jaxpr)
    if name == "dot_general":
        (contracted, _), _ = parameters["dimension_numbers"]
        return size * float(np.prod([equation.invars[0].aval.shape[i] for i in contracted]))
    if name == "fft":
        return size * np.log2(parameters["fft_lengths"][-1])
    if name == "while":
        raise ValueError("a loop of unknown length")
    inner = [value for value in parameters.values() if hasattr(value, "jaxpr") or hasattr(value, "eqns")]
    return size + sum(_work(getattr(one, "jaxpr", one)) for one in inner)
