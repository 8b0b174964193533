"""A small diagnosis as a joint table: build it by the product rule, ask it, learn it back from draws."""

import jax.random as jr
import numpy as np

from tractable.core.checks import ImpossibleEvidence
from tractable.distributions.bayes_rule import bayes
from tractable.distributions.tables import ConditionalTable, JointTable


def main() -> None:
    cold = JointTable("cold", [0.8, 0.2], [["no", "yes"]])
    allergy = JointTable("allergy", [0.9, 0.1], [["no", "yes"]])
    sneeze = ConditionalTable(
        "sneeze",
        ["cold", "allergy"],
        [[[1.0, 0.0], [0.2, 0.8]], [[0.3, 0.7], [0.1, 0.9]]],
        {"cold": ["no", "yes"], "allergy": ["no", "yes"]},
    )
    joint = cold * allergy * sneeze
    print(joint, end="\n\n")

    before = joint.prob(cold="yes", given={"sneeze": 1})
    after = joint.prob(cold="yes", given={"sneeze": 1, "allergy": "yes"})
    print(f"P(cold) = 0.2; given a sneeze {before:.3f}; once the allergy is known {after:.3f}")
    assert before > after > 0.2  # the allergy explains the sneeze away

    apart, given_sneeze = (
        joint.independence("cold", "allergy"),
        joint.independence("cold", "allergy", given="sneeze"),
    )
    assert apart
    assert not given_sneeze
    print(f"cold and allergy: independent, but {given_sneeze.information:.4f} nats given a sneeze")

    posterior = bayes(cold, joint.conditional_table("sneeze", "cold"))
    assert np.isclose(posterior(sneeze=1).prob(cold="yes"), before)
    try:
        joint.condition(cold="no", allergy="no", sneeze=1)
    except ImpossibleEvidence as error:
        print(error)

    draws = joint.sample(jr.key(0), (20_000,))
    learnt = JointTable.from_samples(draws, states=joint.states)
    p, seen = np.asarray(joint.probs), np.asarray(learnt.probs)
    assert (np.abs(seen - p) <= 5 * np.sqrt(p * (1 - p) / 20_000)).all()


if __name__ == "__main__":
    main()
