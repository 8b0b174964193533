"""A network from a table: the best structure with a proof, its tables, a fit with a column half missing."""

import jax.random as jr
import numpy as np
import pandas as pd

from tractable.graphs.learning import DirichletPrior, fit_network, network_posterior
from tractable.graphs.learning_em import fit_network_em, missing_posteriors
from tractable.graphs.structure import learn_structure


def rows(generator: np.random.Generator, count: int) -> pd.DataFrame:
    """Clouds turn the sprinkler off and bring rain; either wets the grass."""
    cloudy = generator.random(count) < 0.5
    sprinkler = generator.random(count) < np.where(cloudy, 0.1, 0.5)
    rain = generator.random(count) < np.where(cloudy, 0.8, 0.2)
    wet = generator.random(count) < np.where(sprinkler & rain, 0.99, np.where(sprinkler | rain, 0.9, 0.01))
    return pd.DataFrame({"cloudy": cloudy, "sprinkler": sprinkler, "rain": rain, "wet": wet})


def main() -> None:
    frame = rows(np.random.default_rng(0), 5000)

    found = learn_structure(frame, score="bic")
    print(found)
    assert found.certified
    assert {frozenset(edge) for edge in found.dag.edges} == {
        frozenset(edge)
        for edge in (("cloudy", "sprinkler"), ("cloudy", "rain"), ("sprinkler", "wet"), ("rain", "wet"))
    }
    for method in ("tabu", "pc"):
        assert learn_structure(frame, method=method, level=0.01).pattern == found.pattern

    net = fit_network(frame, found, prior=DirichletPrior.bdeu(10))
    print(net.tables["wet"])
    posterior = network_posterior(frame, found, "bdeu")
    assert np.isclose(posterior.log_evidence, learn_structure(frame, "bdeu").score)
    print("one draw of P(cloudy)", posterior.sample(jr.key(0)).tables["cloudy"].probs)

    gaps = frame.astype(object)
    gaps.loc[np.random.default_rng(1).random(len(frame)) < 0.5, "rain"] = None
    fitted = fit_network_em(gaps, found, prior=1.0)
    print(fitted)
    assert fitted.run.status.ok
    assert (np.diff(fitted.run.values) > -1e-8).all()
    guess = np.asarray(missing_posteriors(fitted.net, gaps)["rain"])[:, 1] > 0.5
    assert (guess == frame["rain"]).mean() > 0.9


if __name__ == "__main__":
    main()
