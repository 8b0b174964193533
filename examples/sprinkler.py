"""Why is the grass wet? Queries, explanations, interventions and draws in a small Bayesian network."""

import jax.random as jr
import numpy as np

from tractable.core.checks import ImpossibleEvidence
from tractable.graphs.example_networks import sprinkler, student
from tractable.graphs.simpson import kidney_stones, simpson_report


def main() -> None:
    net = sprinkler()
    print(net)
    print(net.marginals({"wet": "yes"}))
    wet, dry_sky = net.marginals({"wet": "yes"}), net.marginals({"wet": "yes", "rain": "yes"})
    assert abs(wet["rain"]["yes"] - 0.7079277) < 5e-8
    assert dry_sky["sprinkler"]["yes"] < wet["sprinkler"]["yes"]  # rain explains the sprinkler away

    assignment, log_probability = net.mpe({"wet": "yes"})
    print("most probable:", assignment, f"log P = {log_probability:.6f}")
    assert abs(log_probability - net.log_prob(assignment)) < 1e-12

    seen, done = net.marginals({"sprinkler": "yes"}), net.do({"sprinkler": "yes"}).marginals()
    print(f"P(cloudy): sprinkler seen on {seen['cloudy']['yes']:.4f}, turned on {done['cloudy']['yes']:.4f}")
    assert abs(done["cloudy"]["yes"] - 0.5) < 1e-12

    print(net.sensitivity({"rain": "yes"}, {"wet": "yes"}, of="rain"))
    frame = net.sample(jr.key(0), 10_000, {"wet": "yes"})
    error = np.sqrt(0.7079277 * 0.2920723 / 10_000)
    assert abs((frame["rain"] == "yes").mean() - 0.7079277) < 5 * error

    try:
        net.marginals({"wet": "yes", "rain": "no", "sprinkler": "no"})
    except ImpossibleEvidence as error:
        print(error)

    print(student().reasoning("intelligence", {"grade": "C", "difficulty": "hard"}))

    stones = simpson_report(kidney_stones(), "treatment", "success", "size", success="yes")
    print(stones)
    assert stones.reversal


if __name__ == "__main__":
    main()
