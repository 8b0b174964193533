"""The sprinkler network as a program: every unknown is finite, so all answers are sums."""

import jax.numpy as jnp
import numpy as np

import tractable as tr
from tractable.distributions import Bernoulli


@tr.model
def lawn():
    cloudy = tr.sample("cloudy", Bernoulli(0.5))
    sprinkler = tr.sample("sprinkler", Bernoulli(jnp.where(cloudy == 1, 0.1, 0.5)))
    rain = tr.sample("rain", Bernoulli(jnp.where(cloudy == 1, 0.8, 0.2)))
    chances = jnp.array([[0.0, 0.9], [0.9, 0.99]])
    tr.sample("wet", Bernoulli(chances[sprinkler, rain]))


def main() -> None:
    post = tr.infer(lawn.condition({"wet": 1}), key=0)
    print(post.explain())
    chance = float(np.exp(post.log_evidence.value))
    rain, on = post["rain"].mean(), post["sprinkler"].mean()
    print(f"wet {chance:.4f}; given that, rain {rain:.3f} and sprinkler {on:.3f}")

    assert post.explain().after == 0
    assert post.verdict.ok
    assert abs(chance - 0.6471) < 1e-9  # by hand, over the causes
    for name, exact in (("rain", 0.4581 / 0.6471), ("sprinkler", 0.2781 / 0.6471)):  # 0.7079 and 0.4298
        assert abs(post[name].mean() - exact) < 4 * post[name].std() / np.sqrt(post[name].size)


if __name__ == "__main__":
    main()
