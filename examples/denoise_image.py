"""A noisy binary picture cleaned with an Ising prior, by five methods."""

import jax.random as jr
import numpy as np

from tractable.graphs.denoising import IsingImage, denoise


def ring(size: int = 48) -> np.ndarray:
    """A ring of +1 on a ground of -1."""
    r, c = np.mgrid[:size, :size] - size / 2
    return np.where(np.abs(np.hypot(r, c) - size / 3.2) < size / 9, 1.0, -1.0)


def shown(image: np.ndarray) -> str:
    """Every second row and column as text."""
    return "\n".join("".join("#" if pixel > 0 else "." for pixel in row[::2]) for row in image[::2])


def main() -> None:
    clean = ring()
    flips = np.random.default_rng(0).uniform(size=clean.shape) < 0.1
    noisy = np.where(flips, -clean, clean)
    model = IsingImage(noisy, coupling=1.0, attachment=2.1, bias=0.0)
    print(shown(noisy), f"\n{(noisy != clean).mean():.2%} of the pixels are wrong.\n")

    results = {m: denoise(model, m, key=jr.key(1)) for m in ("icm", "gibbs", "mean_field", "loopy", "cut")}
    errors = {method: float((np.asarray(found.image) != clean).mean()) for method, found in results.items()}
    for method, found in results.items():
        print(f"{errors[method]:.2%} wrong  {found}")
    print(shown(np.asarray(results["cut"].image)))

    assert all(error < 0.5 * flips.mean() for error in errors.values())
    least = float(results["cut"].energy)  # a minimum cut: no image has less energy
    assert all(float(found.energy) >= least - 1e-9 for found in results.values())


if __name__ == "__main__":
    main()
