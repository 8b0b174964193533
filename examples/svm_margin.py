"""The widest street: worked numbers, a certificate, kernels where lines fail, honest probabilities."""

import numpy as np

from tractable.estimators.svm import SupportVectorClassifier
from tractable.kernels.nonstationary import Linear
from tractable.kernels.stationary import RBF
from tractable.supervised import SupportVectorMachine, leave_one_out_bounds
from tractable.supervised.svm.study import bandwidth_study, rings


def main() -> None:
    two = SupportVectorMachine.fit([[1.0, 1.0], [-1.0, -1.0]], [1, -1])
    print("Two points:", two.multipliers, two.primal_weights, f"width {two.width:.6f}")
    assert np.allclose(two.multipliers, 0.25)
    assert np.isclose(two.value, 0.25)
    assert np.isclose(two.dual_value, 0.25)

    X, y = rings(200, noise=0.3)
    line, curved = SupportVectorMachine.fit(X, y, Linear()), SupportVectorMachine.fit(X, y, RBF(0.7))
    print(
        "\nRings, by a line:", (line.predict(X) == y).mean(), " by a kernel:", (curved.predict(X) == y).mean()
    )
    print(curved)
    print(curved.conditions(X, y, C=1.0))
    print(curved.roles(X, y))
    print(leave_one_out_bounds(curved, X, y))
    assert curved.gap < 1e-8

    X_test, y_test = rings(1000, seed=1, noise=0.3)
    study = bandwidth_study(X, y, X_test, y_test, [0.01, 0.1, 0.7, 5.0])
    print("\nThe width of the kernel:", study, sep="\n")
    assert study.support_share[0] == 1.0  # K is the identity: every row supports, nothing is learnt

    fitted = SupportVectorClassifier(gamma=1.0).fit(X, y)
    probs = fitted.predict_proba(X_test)
    assert (fitted.classes_[probs.argmax(1)] == fitted.predict(X_test)).all()
    right = (fitted.predict(X_test) == y_test).mean()
    print(f"\nMean confidence {probs.max(1).mean():.3f}, accuracy {right:.3f}")
    assert abs(probs.max(1).mean() - right) < 0.08


if __name__ == "__main__":
    main()
