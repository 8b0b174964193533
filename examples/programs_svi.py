"""Parameters and guides of a program: empirical Bayes in closed form, and a guide that is the posterior."""

import numpy as np

import tractable as tr
from tractable.distributions import Gamma, Normal, Poisson


@tr.model
def groups(y):
    """Effects of groups about an unknown mean; mean and spread have no prior."""
    mean, spread = tr.param("mean", 0.0), tr.param("spread", 1.0, "positive")
    with tr.plate("group", len(y)):
        effect = tr.sample("effect", Normal(mean, spread))
        tr.sample("y", Normal(effect, 1.0), obs=y)


@tr.model
def rates(y):
    rate = tr.sample("rate", Gamma(3.0, 1.0))
    with tr.plate("row", len(y)):
        tr.sample("y", Poisson(rate), obs=y)


@tr.model
def guide():
    tr.sample("rate", Gamma(tr.param("a", 2.0, "positive"), tr.param("b", 1.0, "positive")))


def main() -> None:
    y = np.random.default_rng(0).normal(2.0, 2.0, 40)
    post = tr.infer(groups, y, key=0)
    print(post.explain())
    print(post.params)
    shrunk = y.mean() + (1 - 1 / y.var()) * (y - y.mean())  # James and Stein would nod
    assert np.isclose(post.params["mean"], y.mean(), atol=1e-5)
    assert np.isclose(post.params["spread"], np.sqrt(y.var() - 1), rtol=1e-5)
    error = 4.5 * post["effect"].std((0, 1)) / np.sqrt(post["effect"][..., 0].size)
    assert np.all(abs(post["effect"].mean((0, 1)) - shrunk) < error)

    counts = np.array([2, 4, 3, 5])
    post = tr.infer(rates, counts, key=0, method="svi", guide=guide, progress=False)
    exact = tr.infer(rates, counts, key=0)
    print(f"bound {post.elbo}, evidence {exact.log_evidence}, {post.verdict.sentence}")
    assert post.verdict.ok
    assert abs(float(post.elbo.value) - float(exact.log_evidence.value)) < 1e-3


if __name__ == "__main__":
    main()
