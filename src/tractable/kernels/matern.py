r"""The Matern function of any order, with the derivatives that make its kernels differentiable at zero.

Function.    $g_\nu(z^2) = \frac{2^{1-\nu}}{\Gamma(\nu)} z^\nu K_\nu(z)$ with $g_\nu(0) = 1$ and the modified
             Bessel function $K_\nu$ of the second kind.
Half.        For $\nu = p + \frac12$: $e^{-z}\frac{p!}{(2p)!}\sum_{i=0}^p\frac{(p+i)!}{i!\,(p-i)!}(2z)^{p-i}$.
Bessel.      $K_\nu(z) = \frac12\int e^{\nu v - z\cosh v}\,dv$, shifted to its peak $\sinh v^* = \nu / z$:
             with $q = \sqrt{z^2 + \nu^2}$, $g_\nu = \frac{(\nu + q)^\nu e^{-q}}{2^\nu\Gamma(\nu)} \int\exp\{q
             + \nu\delta - \frac{q+\nu}{2}e^{\delta} - \frac{q-\nu}{2}e^{-\delta}\}\,d\delta$.
Derivative.  $\frac{d g_\nu}{d z^2} = -\frac{g_{\nu-1}}{4(\nu-1)}$ for $\nu > 1$; below, from
             $K_{-\nu} = K_\nu$.
Cost.        Elementwise; orders that are not half-integers sum 64 terms and more (about $200 / \nu$) of a
             trapezoidal rule, exact to rounding since the integrand decays doubly exponentially.
References.  Abramowitz and Stegun (1972) 9.6.24, 10.2.15; Trefethen and Weideman (2014) section 5.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp

from tractable.core.numerics import safe_where
from tractable.core.types import Array

__all__ = ["matern"]

_NEGLIGIBLE = 45.0  # exp(-45) is below the rounding of a double
_UNDERFLOW = 1e3  # exp(-1000) is zero in a double


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def matern(nu: float, squared: Array) -> Array:
    r"""$g_\nu(z^2)$ from $z^2 \ge 0$, elementwise.

    >>> float(matern(0.5, jnp.array(4.0))) == math.exp(-2)
    True
    """
    if (2 * nu) % 2 == 1:
        return _half_integer(round(nu - 0.5), squared)
    q = jnp.sqrt(squared + nu**2)
    scale = nu * jnp.log((nu + q) / 2) - q - math.lgamma(nu)
    return jnp.where(squared == 0, 1.0, jnp.exp(scale) * _bessel_integral(nu, squared))


@matern.defjvp
def _matern_tangent(nu: float, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (squared,), (tangent,) = primals, tangents
    if nu > 1:
        slope = -matern(nu - 1, squared) / (4 * (nu - 1))
    elif nu == 1:  # K_0 has a logarithmic pole at zero, where the distance has no derivative
        slope = safe_where(squared > 0, lambda s: -jnp.exp(-jnp.sqrt(s)) * _bessel_integral(0.0, s) / 4,
                           squared, 0.0)  # fmt: skip
    else:
        factor = math.gamma(1 - nu) / (4 * math.gamma(nu))
        power = (
            (lambda s: 2 / jnp.sqrt(s)) if nu == 0.5 else (lambda s: (s / 4) ** (nu - 1))
        )  # roots are faster
        pole = safe_where(squared > 0, power, squared, 0.0)
        slope = -factor * pole * matern(1 - nu, squared)
    return matern(nu, squared), slope * tangent


def _half_integer(p: int, squared: Array) -> Array:
    z = jnp.sqrt(squared)  # differentiated by the rule above alone, so zero needs no care
    doubled = 2 * (
        z if p < 3 else jnp.minimum(z, _UNDERFLOW)
    )  # powers must not overflow where exp(-z) is zero
    weights = [
        math.factorial(p) * math.factorial(p + i) / (math.factorial(2 * p) * math.factorial(i))
        / math.factorial(p - i) for i in range(p + 1)
    ]  # fmt: skip
    total = weights[0]
    for weight in weights[1:]:
        total = total * doubled + weight
    return total * jnp.exp(-z)


def _bessel_integral(nu: float, squared: Array) -> Array:
    """The integral over the shift from the peak, on an interval that leaves out what rounding does not see.

    At a shift of x the exponent has fallen by q (cosh x - 1) at least on the right; on the left by
    (q - nu) (cosh x - 1) and by nu (exp(-x) - 1 + x), which passes c nu at x = c + sqrt(2 c).
    """
    q = jnp.sqrt(squared + nu**2)
    gap = squared / (q + nu)  # q - nu, without cancelling
    right = jnp.arccosh(1 + _NEGLIGIBLE / q)
    left = safe_where(gap > 0, lambda g: jnp.arccosh(1 + _NEGLIGIBLE / g), gap, jnp.inf)
    longest = _NEGLIGIBLE / nu + math.sqrt(2 * _NEGLIGIBLE / nu) if nu > 0 else 2 * _NEGLIGIBLE
    left = jnp.minimum(left, longest)
    count = max(64, math.ceil(4 * (longest + 8)))
    step = (left + right) / count

    def add(i: Array, total: Array) -> Array:
        shift = i * step - left
        exponent = q + nu * shift - (q + nu) / 2 * jnp.exp(shift) - gap / 2 * jnp.exp(-shift)
        return total + jnp.exp(exponent)

    return step * jax.lax.fori_loop(0, count + 1, add, jnp.zeros_like(squared))
