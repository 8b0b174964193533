"""Three approximations of one classification: evidence and probabilities against exact integrals."""

import numpy as np
from scipy.special import expit

from tractable.gp import ClassificationProcess
from tractable.kernels import RBF


def exact(gram: np.ndarray, labels: np.ndarray, num_draws: int, seed: int) -> tuple[float, float]:
    """The log-evidence by draws of the prior, and its standard error."""
    generator = np.random.default_rng(seed)
    root = np.linalg.cholesky(gram + 1e-12 * np.eye(len(gram)))
    functions = generator.normal(size=(num_draws, len(gram))) @ root.T
    weights = expit(np.where(labels == 1, 1, -1) * functions).prod(1)
    return float(np.log(weights.mean())), float(weights.std() / weights.mean() / num_draws**0.5)


def main() -> None:
    """Expectation propagation is closest, the variational value is a bound."""
    X = np.array([[-2.0], [-1.2], [-0.4], [0.3], [1.1], [2.0]])
    labels = np.array([0, 0, 1, 0, 1, 1])
    kernel = 4.0 * RBF(1.0)
    truth, error = exact(np.asarray(kernel.gram(X)), labels, 400_000, 0)
    print(f"exact by draws {truth:.4f} +- {error:.4f}")
    gaps = {}
    for method in ("laplace", "ep", "variational"):
        found = ClassificationProcess(kernel).posterior(X, labels, method=method)
        gaps[method] = float(found.log_evidence) - truth
        print(f"{found}  p(1 | x=0) = {found.probability([[0.0]])[0]:.4f}")
    assert abs(gaps["ep"]) < 0.01 + 5 * error
    assert abs(gaps["ep"]) < min(abs(gaps["laplace"]), abs(gaps["variational"]))
    assert gaps["variational"] < 5 * error


if __name__ == "__main__":
    main()
