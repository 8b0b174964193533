"""Kernels: composed, checked, drawn from, and replaced by finite features with a bound on the error."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.bijections.support import unconstrain
from tractable.kernels.checks import falsify_psd, psd_report
from tractable.kernels.mercer import mercer_expansion
from tractable.kernels.nonstationary import Linear, Sigmoid
from tractable.kernels.random_features import NystromFeatures, pivoted_landmarks
from tractable.kernels.smoothness import smoothness_report
from tractable.kernels.stationary import RBF, Matern32, Periodic


def main() -> None:
    kernel = 2.0 * RBF(length_scale=3.0) * Periodic(1.0, period=1.0) + 0.5 * Matern32(0.4) + 0.1 * Linear()
    times = np.linspace(0.0, 4.0, 120)
    gram = kernel.gram(times)
    print(kernel)
    smoothness, search = smoothness_report(kernel), falsify_psd(Sigmoid(1.0, 0.5), jr.key(0))
    print("  the table", psd_report(gram))
    print("  paths are", smoothness)
    print("Sigmoid:", search, end="\n\n")

    free, rebuild = unconstrain(kernel)
    slopes = jax.grad(lambda free: rebuild(free)[0].gram(jnp.asarray(times)).mean())(free)
    for name, slope in zip(rebuild.names, slopes):
        print(f"  d(mean covariance)/d(log {name}) = {slope:+.4f}")

    chosen = pivoted_landmarks(kernel, times, 40)
    features = NystromFeatures(kernel, times[np.asarray(chosen.indices)])
    phi = features(times)
    error, bound = float(jnp.abs(phi @ phi.T - gram).max()), float(features.residual(times).max())
    print(f"\n40 landmarks of 120 rows: largest error {error:.2e}, certified below {bound:.2e}")

    expansion = mercer_expansion(kernel, times, 60)
    paths = expansion.sample(jr.key(1), times, (3,))
    print(expansion, "\nthree functions of the prior at time 0:", np.round(np.asarray(paths[:, 0]), 3))

    assert psd_report(gram)
    assert search.found
    assert smoothness.measured == 1
    assert error <= bound + 1e-12
    assert float(expansion.error(times)) < 0.02


if __name__ == "__main__":
    main()
