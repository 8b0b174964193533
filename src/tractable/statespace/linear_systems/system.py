r"""Linear time-invariant systems, continuous or discrete: simulation, responses, modes and reach.

Model.       $\dot x = Ax + Bu$ (or $x_{k+1} = Ax_k + Bu_k$ where `step` is set), $y = Cx + Du$.
Stability.   Asymptotic if all $\Re\lambda < 0$ ($|\lambda| < 1$); unstable if one is beyond the edge, or on
             it with fewer eigenvectors than its multiplicity; else marginal. The edge is a band of
             `tolerance`.
Reach.       Controllable if $[B, AB, \dots, A^{n-1}B]$ has rank $n$, observable if the same holds for
             $(A^\top, C^\top)$. Ranks are counted mode by mode on $[A - \lambda I, B]$, which does not
             overflow, by singular values above `tolerance` of the largest. Gramians solve $AW + WA^\top +
             BB^\top = 0$ (stable systems).
Convolution. From rest $y_k = D u_k + \sum_{j \ge 1} C A^{j-1} B\,u_{k-j}$, the impulse response as kernel.
Cost.        $O(n^3)$; simulation $O(T n^2)$.
References.  Kailath (1980); Antsaklis and Michel (2006).
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, check_count, check_option
from tractable.core.module import HostResult, field
from tractable.core.runge_kutta import runge_kutta_step
from tractable.core.types import Values

__all__ = ["LinearSystem", "Response", "Stability", "mass_spring_damper"]

_METHODS = ("exact", "rk4", "euler")


class Response(HostResult):
    """Times, states and outputs of a simulation."""

    times: Values
    states: Values
    outputs: Values


class Stability(HostResult):
    """The eigenvalues, the class ("asymptotic", "marginal" or "unstable") and the distance to the edge."""

    kind: str = field(static=True)
    eigenvalues: Values
    margin: float = field(about="how far the worst eigenvalue is inside the edge")


class LinearSystem(HostResult):
    """A linear system of states `x`, inputs `u` and outputs `y`; `step` is the time between two states of a
    discrete one, None for a continuous one.

    >>> system = LinearSystem([[0.0, 1.0], [-2.0, -0.5]], [[0.0], [1.0]], [[1.0, 0.0]])
    >>> system.stability().kind, system.is_controllable(), system.is_observable()
    ('asymptotic', True, True)
    """

    A: Any
    B: Any
    C: Any
    D: Any
    step: float | None = field(static=True)

    def __init__(self, A: Any, B: Any = None, C: Any = None, D: Any = None, step: float | int | None = None):
        self.A = _matrix("A", A)
        n = len(self.A)
        check(self.A.shape == (n, n) and n > 0, "A", "a square matrix", f"shape {self.A.shape}")
        self.B = np.zeros((n, 0)) if B is None else _matrix("B", B)
        check(len(self.B) == n, "B", f"of {n} rows, like `A`", f"shape {self.B.shape}")
        self.C = np.eye(n) if C is None else _matrix("C", C)
        check(self.C.shape[1] == n, "C", f"of {n} columns, like `A`", f"shape {self.C.shape}")
        shape = (len(self.C), self.B.shape[1])
        self.D = np.zeros(shape) if D is None else _matrix("D", D)
        check(self.D.shape == shape, "D", f"of shape {shape}", f"shape {self.D.shape}")
        check(step is None or step > 0, "step", "positive, or None for a continuous system", step)
        self.step = None if step is None else float(step)

    @property
    def is_discrete(self) -> bool:
        """Whether states follow each other in steps."""
        return self.step is not None

    def stability(self, tolerance: float = 1e-9) -> Stability:
        """The class of the system without inputs."""
        values = np.linalg.eigvals(self.A)
        inside = 1 - np.abs(values) if self.is_discrete else -values.real
        if (inside > tolerance).all():
            kind = "asymptotic"
        elif (inside < -tolerance).any() or self._is_defective(values[np.abs(inside) <= tolerance]):
            kind = "unstable"
        else:
            kind = "marginal"
        return Stability(kind, values, float(inside.min()))

    def controllability(self) -> np.ndarray:
        """$[B, AB, \\dots, A^{n-1}B]$."""
        blocks = [self.B]
        for _ in range(len(self.A) - 1):
            blocks.append(self.A @ blocks[-1])
        return np.hstack(blocks)

    def observability(self) -> np.ndarray:
        """$[C; CA; \\dots; CA^{n-1}]$."""
        return self._dual().controllability().T

    def is_controllable(self, tolerance: float = 1e-10) -> bool:
        """Whether inputs can bring the state anywhere."""
        size = max(np.abs(self.A).max(), np.finfo(float).tiny)
        scaled = self.B / max(np.abs(self.B).max(initial=0.0), np.finfo(float).tiny)
        n = len(self.A)
        ranks = (
            _rank(np.hstack([(self.A - value * np.eye(n)) / size, scaled]), tolerance)
            for value in np.linalg.eigvals(self.A)
        )
        return all(rank == n for rank in ranks)

    def is_observable(self, tolerance: float = 1e-10) -> bool:
        """Whether outputs tell every state."""
        return self._dual().is_controllable(tolerance)

    def gramian(self, kind: str = "controllability") -> np.ndarray:
        """The controllability or observability Gramian over all times of a stable system."""
        from scipy.linalg import solve_continuous_lyapunov, solve_discrete_lyapunov

        check_option("kind", kind, ("controllability", "observability"))
        found = self.stability()
        check(found.kind == "asymptotic", "A", "asymptotically stable for a Gramian", f"{found.kind} system")
        one = self if kind == "controllability" else self._dual()
        square = one.B @ one.B.T
        if self.is_discrete:
            return solve_discrete_lyapunov(one.A, square)
        return solve_continuous_lyapunov(one.A, -square)

    def simulate(
        self, inputs: Any = None, *, start: Any = None, times: Any = None, method: str = "exact"
    ) -> Response:
        """The path from `start` under inputs `(T, k)`, held constant over each step.

        A continuous system needs `times`; "exact" is the matrix exponential of each gap, "rk4" and "euler"
        take one step per gap. A discrete one has as many times as inputs.
        """
        check_option("method", method, _METHODS)
        u, moments = self._driven(inputs, times)
        x = np.zeros(len(self.A)) if start is None else np.asarray(start, float)
        check(x.shape == (len(self.A),), "start", f"of shape ({len(self.A)},)", f"shape {x.shape}")
        states, known = np.empty((len(moments), len(x))), {}
        for k, now in enumerate(moments):
            states[k] = x
            if k + 1 == len(moments):
                break
            gap = moments[k + 1] - now
            if self.is_discrete:
                x = self.A @ x + self.B @ u[k]
            elif method == "exact":
                x = self._held(float(gap), known) @ np.concatenate([x, u[k]])
            else:
                x = self._rolled(x, u[k], float(now), float(gap), method)
        return Response(moments, states, states @ self.C.T + u @ self.D.T)

    def impulse_response(self, times: Any) -> np.ndarray:
        """Outputs `(T, p, k)` after a unit impulse at each input: $Ce^{At}B$ (without the impulse of `D`
        itself), or the kernel $D, CB, CAB, \\dots$ of a discrete system for a number of `times`."""
        from scipy.linalg import expm

        if self.is_discrete:
            kernel, power = [self.D], self.B
            for _ in range(check_count("times", times) - 1):
                kernel.append(self.C @ power)
                power = self.A @ power
            return np.stack(kernel)
        return np.stack([self.C @ expm(self.A * float(t)) @ self.B for t in np.asarray(times, float)])

    def step_response(self, times: Any) -> np.ndarray:
        """Outputs `(T, p, k)` after each input is switched to one at time zero."""
        if self.is_discrete:
            return np.cumsum(self.impulse_response(times), 0)
        moments = np.asarray(times, float)
        n, k = self.B.shape
        held = [self._held(float(t), {})[:, n:] if t > 0 else np.zeros((n, k)) for t in moments]
        return np.stack([self.C @ part + self.D for part in held])

    def convolve(self, inputs: Any) -> np.ndarray:
        """The outputs of a discrete system from rest as a convolution of inputs with the impulse response."""
        from scipy.signal import fftconvolve

        check(self.is_discrete, "self", "a discrete system", "a continuous one", "`discretise` it first.")
        u, _ = self._driven(inputs, None)
        kernel = self.impulse_response(len(u))
        return fftconvolve(kernel, u[:, None, :], axes=0)[: len(u)].sum(2)

    def _dual(self) -> "LinearSystem":
        return LinearSystem(self.A.T, self.C.T, self.B.T, self.D.T, self.step)

    def _rolled(self, x: np.ndarray, u: np.ndarray, now: float, gap: float, method: str) -> np.ndarray:
        """One step of a rule of Runge and Kutta, its input held."""
        return runge_kutta_step(lambda _, state: self.A @ state + self.B @ u, now, x, gap, method)

    def _held(self, gap: float, known: dict) -> np.ndarray:
        """$[A_d, B_d]$ of one gap."""
        from tractable.statespace.linear_systems.discretise import zero_order_hold

        if gap not in known:
            known[gap] = np.hstack(zero_order_hold(self.A, self.B, gap))
        return known[gap]

    def _driven(self, inputs: Any, times: Any) -> tuple[np.ndarray, np.ndarray]:
        k = self.B.shape[1]
        moments = None if times is None else np.asarray(times, float)
        check(self.is_discrete or moments is not None, "times", "given for a continuous system", "none")
        if inputs is None:
            check(moments is not None, "inputs", "given, or `times`", "neither")
            u = np.zeros((len(moments), k))  # pyright: ignore[reportArgumentType]
        else:
            u = np.asarray(inputs, float)
            u = u[:, None] if u.ndim == 1 and k == 1 else u
        check(u.ndim == 2 and u.shape[1] == k, "inputs", f"of shape (times, {k})", f"shape {u.shape}")
        if moments is None:
            moments = (self.step or 1.0) * np.arange(len(u))
        fits = moments.shape == (len(u),) and (np.diff(moments) > 0).all()
        check(fits, "times", f"{len(u)} increasing numbers, one per input", f"shape {moments.shape}")
        return u, moments

    def _is_defective(self, edge: np.ndarray) -> bool:
        """Whether an eigenvalue on the edge has fewer eigenvectors than its multiplicity."""
        n, size = len(self.A), max(np.abs(self.A).max(), 1.0)
        for value in edge:
            # a defective eigenvalue splits by about the square root of rounding
            many = int((np.abs(edge - value) < 1e-6 * size).sum())
            if many > n - _rank((self.A - value * np.eye(n)) / size, 1e-7):
                return True
        return False


def mass_spring_damper(
    mass: float | int = 1.0, damping: float | int = 0.5, stiffness: float | int = 2.0
) -> LinearSystem:
    r"""$m\ddot x + c\dot x + kx = F$ with the states position and velocity, the force as input and the
    position as output.

    >>> mass_spring_damper().stability().eigenvalues.round(7).tolist()
    [(-0.25+1.3919411j), (-0.25-1.3919411j)]
    """
    check(mass > 0, "mass", "positive", mass)
    A = [[0.0, 1.0], [-stiffness / mass, -damping / mass]]
    return LinearSystem(A, [[0.0], [1 / mass]], [[1.0, 0.0]])


def _matrix(name: str, value: Any) -> np.ndarray:
    matrix = np.asarray(value, float)
    check(matrix.ndim == 2, name, "a matrix", f"shape {matrix.shape}")
    check(np.isfinite(matrix).all(), name, "finite", "NaN or infinite entries")
    return matrix


def _rank(matrix: np.ndarray, tolerance: float) -> int:
    values = np.linalg.svd(matrix, compute_uv=False)
    return int((values > tolerance * max(values[0], 1.0)).sum())
