"""The usual slips, and the sentence that each must give: what is wrong, with what value, and what to write.

A slip joins with one line in `SLIPS`. Nothing here reaches a compiler: a slip is found before. Where types
are checked at run time the checker speaks first, so `.ci/run` runs these once more without it.
"""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from typer.testing import CliRunner

import tractable as tr
from tractable import bijections, distributions, estimators, gp, graphs, inference, kernels, optim
from tractable.cli.app import app
from tractable.core.keys import as_key
from tractable.graphs.example_networks import sprinkler

D, E, G, I, K, M, O = distributions, estimators, graphs, inference, kernels, tr.messages, optim
ROWS = np.random.default_rng(0).normal(size=(12, 2))
NUMBERS, LABELS = ROWS[:, 0], (ROWS[:, 0] > 0).astype(int)
KEY = jr.key(0)


def quadratic(x):
    return -0.5 * x**2


def with_scipy(x):
    return scipy.stats.norm.logpdf(x).sum()


def with_numpy(x):
    return np.log(x) - x


def with_branch(x):
    if x > 0:
        return -x
    return x


def two_leaves(p):
    return -0.5 * p["mu"] ** 2 - p["tau"]


def of_data(x, y):
    return -((x - y) ** 2)


def without_return(x):
    x + 1.0


class Slip(NamedTuple):
    name: str
    call: Callable[[], Any]
    error: type[Exception]
    says: str

    def __str__(self) -> str:
        return self.name


def _line(function: Callable, offset: int) -> str:
    return rf"test_messages\.py:{function.__code__.co_firstlineno + offset}, `"


SLIPS = [
    # --- distributions
    Slip("mu", lambda: D.Normal(mu=0.0), TypeError, "must be given loc, scale; got 'mu'. Write `loc`"),
    Slip("sigma", lambda: D.Normal(0.0, sigma=1.0), TypeError, "got 'sigma'. Write `scale`"),
    Slip("variance", lambda: D.Normal(0.0, var=1.0), TypeError, "Write `scale`: the square root of it"),
    Slip("shape", lambda: D.Gamma(shape=1.0), TypeError, "got 'shape'. Write `concentration`"),
    Slip("gamma scale", lambda: D.Gamma(1.0, scale=2.0), TypeError, "got 'scale'. Write `rate`: one over it"),
    Slip("p", lambda: D.Categorical(p=[0.5, 0.5]), TypeError, "got 'p'. Write `probs`"),
    Slip("df", lambda: D.StudentT(df=3.0), TypeError, "got 'df'. Write `degrees`"),
    Slip("misspelt", lambda: D.Poisson(rates=3.0), TypeError, "got 'rates'. Write `rate`"),
    Slip("three values", lambda: D.Normal(0.0, 1.0, 2.0), TypeError, "must be given loc, scale; got 3"),
    Slip("one value", lambda: D.Gaussian(jnp.zeros(2)), TypeError, "mean, cov; got nothing for 'cov'"),
    Slip("negative scale", lambda: D.Normal(0.0, -1.0), ValueError, "`scale` must be positive .* got -1.0"),
    Slip("text", lambda: D.Normal("a", 1.0), TypeError, "`loc` must be a real number"),
    Slip("sum of probs", lambda: D.Categorical([0.5, 0.6]), ValueError, "`probs` must be .* sum to 1"),
    Slip("sample(10)", lambda: D.Normal().sample(10), TypeError, r"`jax.random.key\(0\)`; got 10. The order"),
    Slip("sample((10,))", lambda: D.Normal().sample((10,)), TypeError, r"`jax.random.key\(0\)`; got \(10,\)"),
    Slip(
        "NumPy generator",
        lambda: D.Normal().sample(np.random.default_rng(0)),
        TypeError,
        r"`key` must be a random key, such as `jax.random.key\(0\)`; got a NumPy generator",
    ),
    Slip("logpdf", lambda: D.Normal().logpdf(0.0), AttributeError, "'logpdf'. It is `log_prob` here"),
    Slip("ppf", lambda: D.Gamma(1.0, 1.0).ppf(0.5), AttributeError, "'ppf'. It is `icdf` here"),
    Slip("rvs", lambda: D.Beta(1.0, 1.0).rvs(3), AttributeError, "'rvs'. It is `sample` here"),
    Slip("conjugacy", lambda: tr.posterior(D.Beta(1.0, 1.0), D.Poisson, [3]), TypeError, "Known pairs:"),
    Slip("kl to a number", lambda: D.kl(D.Normal(), 3), TypeError, "`q` must be a distribution; got int"),
    # --- packages
    Slip("positive", lambda: tr.distributions.positive, AttributeError, "It is `tractable.positive`"),
    Slip("tr.Normal", lambda: tr.Normal, AttributeError, "It is `tractable.distributions.Normal`"),
    Slip("Nuts", lambda: tr.inference.Nuts, AttributeError, "Did you mean NUTS"),
    Slip("MvNormal", lambda: D.MvNormal, AttributeError, "It is `Gaussian` here"),
    # --- inference
    Slip(
        "SciPy in a density",
        lambda: tr.mcmc(with_scipy, 0.0, key=KEY),
        TypeError,
        "`log_density` must be written with JAX; .*" + _line(with_scipy, 1) + ".* Use `jax.numpy`",
    ),
    Slip("NumPy in a density", lambda: I.vi(with_numpy, 1.0, key=KEY), TypeError, _line(with_numpy, 1)),
    Slip("NumPy, Laplace", lambda: I.laplace(with_numpy, 1.0), TypeError, _line(with_numpy, 1)),
    Slip(
        "NumPy, Pathfinder", lambda: I.pathfinder(with_numpy, 1.0, key=KEY), TypeError, _line(with_numpy, 1)
    ),
    Slip("NumPy, SMC", lambda: I.smc(with_numpy, D.Normal(), key=KEY), TypeError, "`likelihood` must be wr"),
    Slip(
        "NumPy, importance",
        lambda: I.importance(with_numpy, D.Normal(), key=KEY, num_draws=30),
        TypeError,
        _line(with_numpy, 1),
    ),
    Slip(
        "if",
        lambda: tr.mcmc(with_branch, 0.0, key=KEY),
        TypeError,
        _line(with_branch, 1) + ".*jax.numpy.where",
    ),
    Slip(
        "missing leaf",
        lambda: tr.mcmc(two_leaves, {"mu": 0.0}, key=KEY),
        ValueError,
        "`start` must be .* got none for 'tau'; it has mu. It is read at .*" + _line(two_leaves, 1),
    ),
    Slip("integer start", lambda: tr.mcmc(quadratic, 0, key=KEY), TypeError, "`start` must be .* Write 0.0"),
    Slip(
        "integer leaf",
        lambda: tr.mcmc(two_leaves, {"mu": 0, "tau": 1.0}, key=KEY),
        TypeError,
        r'`mu` must be a float .* Write 0.0, or hold it fixed with `supports=\{"mu": None\}`',
    ),
    Slip("start first", lambda: tr.mcmc(0.0, quadratic, key=KEY), TypeError, "The density comes first"),
    Slip("start of NaN", lambda: tr.mcmc(quadratic, np.nan, key=KEY), ValueError, "`start` must be finite"),
    Slip(
        "start outside",
        lambda: tr.mcmc(quadratic, -1.0, key=KEY, supports=tr.positive),
        ValueError,
        "`start` must be positive and finite; got -1.0",
    ),
    Slip(
        "unknown support",
        lambda: tr.mcmc(two_leaves, {"mu": 0.0, "tau": 1.0}, key=KEY, supports={"tau": "pos"}),
        TypeError,
        "`supports of 'tau'` must be a support; got 'pos'. Write `tractable.positive`, or a name: real",
    ),
    Slip(
        "support of no leaf",
        lambda: tr.mcmc(two_leaves, {"mu": 0.0, "tau": 1.0}, key=KEY, supports={"sigma": tr.positive}),
        ValueError,
        r"`supports` must be keyed by leaves .*\(mu, tau\); got 'sigma'",
    ),
    Slip(
        "integrand", lambda: I.monte_carlo(with_numpy, D.Normal(), key=1, num_draws=9), TypeError, "with JAX"
    ),
    Slip("args", lambda: tr.mcmc(of_data, 0.0, key=KEY), TypeError, "'y'. .* those of `args`"),
    Slip(
        "no return", lambda: tr.mcmc(without_return, 0.0, key=KEY), ValueError, "got None. Has it a `return`"
    ),
    Slip(
        "no sum",
        lambda: tr.mcmc(quadratic, jnp.zeros(3), key=KEY),
        ValueError,
        r"returns one number; got shape \(3,\). Sum over the rows",
    ),
    Slip(
        "sampler by name", lambda: tr.mcmc(quadratic, 0.0, "nuts", key=KEY), TypeError, r"such as `NUTS\(\)`"
    ),
    Slip(
        "text as key", lambda: tr.mcmc(quadratic, 0.0, key="a"), TypeError, r"got 'a'. Write `jax.random.key"
    ),
    Slip(
        "num_samples", lambda: tr.mcmc(quadratic, 0.0, key=KEY, num_samples=9), TypeError, "Write `num_draws`"
    ),
    Slip("chains", lambda: tr.mcmc(quadratic, 0.0, key=KEY, chains=9), TypeError, "Write `num_chains`"),
    Slip("seed", lambda: I.vi(quadratic, 0.0, seed=1), TypeError, "Write `key`: a whole number will do"),
    Slip(
        "mcmc without key",
        lambda: tr.mcmc(quadratic, 0.0),
        TypeError,
        r"nothing for 'key'. .*random.key\(0\)",
    ),
    Slip(
        "sample()", lambda: D.Normal().sample(), TypeError, r"`sample` must be given key, shape; .*random.key"
    ),
    Slip("size", lambda: D.Normal().sample(KEY, size=3), TypeError, "got 'size'. Write `shape`"),
    Slip("no key", lambda: tr.posterior(quadratic, [1.0]), ValueError, "A log-density needs"),
    Slip("one chain", lambda: I.rhat(np.ones(4)), ValueError, r"Give one chain as `draws\[None\]`"),
    Slip("resample(0)", lambda: I.resample(0, jnp.zeros(3)), TypeError, r"The order is resample\(key, log_w"),
    Slip("family", lambda: I.vi(quadratic, 0.0, key=KEY, family="gauss"), ValueError, "one of 'mean_field'"),
    # --- graphs and messages
    Slip(
        "variable", lambda: sprinkler().marginals({"rian": "yes"}), ValueError, "one of .*rain.* got 'rian'"
    ),
    Slip("state", lambda: sprinkler().marginals({"rain": True}), ValueError, r"\('no', 'yes'\); got True"),
    Slip("evidence", lambda: sprinkler().marginals("rain"), TypeError, "`evidence` must be a mapping"),
    Slip("edges", lambda: G.DAG([("a", "b")]), TypeError, "go to `DAG.from_edges`"),
    Slip("cycle", lambda: G.DAG({"a": "b", "b": "a"}), ValueError, "must be .*cycle"),
    Slip("parent", lambda: G.BayesNet([_child()]), ValueError, "Give each of them a table"),
    Slip("suffix", lambda: G.read(__file__), ValueError, "must be a network in BIF, XMLBIF or UAI"),
    Slip(
        "passes",
        lambda: M.forward_backward(None, method="fast"),
        ValueError,
        "'scan', 'parallel', 'loop'; got 'fast'",
    ),
    # --- kernels and processes
    Slip("RBF(sigma)", lambda: K.RBF(sigma=1.0), TypeError, "got 'sigma'. Write `length_scale`"),
    Slip(
        "kernel by name", lambda: gp.GaussianProcess("rbf"), TypeError, "`kernel` must be a Kernel; got str"
    ),
    Slip("process keyword", lambda: gp.GaussianProcess(K.RBF(), nois=1.0), TypeError, "Write `noise`"),
    Slip(
        "rows of a process",
        lambda: gp.GaussianProcess(K.RBF()).posterior(ROWS, NUMBERS[:3]),
        ValueError,
        r"`y` must be as long as `X` \(12\); got 3",
    ),
    Slip("RKHS text", lambda: K.RBF().gram(["a", "b"]), TypeError, "`X` must be"),
    # --- optimisation
    Slip(
        "vector objective",
        lambda: O.minimise(lambda x: x, jnp.zeros(2)),
        ValueError,
        "`fun` must be .* one n",
    ),
    Slip("method by name", lambda: O.minimise(quadratic, 0.0, "bfgs"), TypeError, r"such as `LBFGS\(\)`"),
    Slip(
        "NumPy objective",
        lambda: O.minimise(with_numpy, 1.0),
        TypeError,
        "`fun` must be .*" + _line(with_numpy, 1),
    ),
    Slip(
        "NumPy constraint",
        lambda: O.minimise_constrained(quadratic, 1.0, inequality=with_numpy),
        TypeError,
        "must be written with JAX; .*" + _line(with_numpy, 1),
    ),
    # --- estimators
    Slip("unfitted", lambda: E.RidgeRegressor().predict(ROWS), ValueError, "not fitted yet. Call 'fit'"),
    Slip("rows", lambda: E.RidgeRegressor().fit(ROWS, NUMBERS[:3]), ValueError, r"\[12, 3\]"),
    Slip("one column", lambda: E.RidgeRegressor().fit(NUMBERS, NUMBERS), ValueError, r"reshape\(-1, 1\)"),
    Slip(
        "numbers as classes",
        lambda: E.LogisticClassifier().fit(ROWS, NUMBERS),
        ValueError,
        "discrete classes",
    ),
    Slip("one class", lambda: E.LogisticClassifier().fit(ROWS, 0 * LABELS), ValueError, "at least 2 classes"),
    Slip("model", lambda: tr.predict(3, [1.0]), TypeError, "`model` must be one with `predict_dist`"),
    # --- storage
    Slip("save order", lambda: tr.save(D.Normal(), "x"), TypeError, r"The order is `save\(path, obj\)`"),
    Slip(
        "save folder",
        lambda: tr.save("/nonexist/x", 1.0),
        OSError,
        "in a folder that is there; got '/nonexist/x'",
    ),
    Slip("save a function", lambda: tr.save("x", quadratic), ValueError, "rebuild them after loading"),
    Slip("load another", lambda: tr.load(__file__), ValueError, "is not a file that `save` wrote"),
    Slip("folder", lambda: tr.tables.read_table("/"), ValueError, "there must be a file; got a folder"),
    Slip(
        "target",
        lambda: tr.tables.describe_table({"price": [1]}, target="prise"),
        ValueError,
        "there must be a column 'prise'; got 'price'. Did you mean price?",
    ),
    Slip(
        "kind",
        lambda: tr.tables.describe_table({"a": [1]}, kinds={"a": "numeric"}),
        ValueError,
        "the kind of 'a' must be one of number, count",
    ),
]


def _child() -> Any:
    return D.ConditionalTable("a", "b", [[0.5, 0.5], [0.5, 0.5]])


@pytest.mark.skipif(os.environ.get("TRACTABLE_CHECKED") == "1", reason="the type checker speaks first")
@pytest.mark.cheap
@pytest.mark.parametrize("slip", SLIPS, ids=str)
def test_a_slip_is_answered_with_what_to_write(slip, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(slip.error, match=slip.says):
        slip.call()
    assert list(tmp_path.iterdir()) == []


COMMANDS = [
    (["demo", "--out", "/nonexist/x"], "`out` must be in a folder that is there"),
    (["query", "missing.bif"], "`file` must be a file that is there"),
    (["query", "asia", "--cases", "none.csv"], "`cases` must be a file that is there; got 'none.csv'"),
    (["query", "sprinklr"], "Did you mean sprinkler"),
    (["querry"], "No such command 'querry'"),
]


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("words", "says"), COMMANDS, ids=lambda each: each[-1] if isinstance(each, list) else ""
)
def test_a_slip_on_the_command_line_is_one_line_and_code_two(words, says):
    found = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert found.exit_code == 2
    assert says in found.stderr


# --- keys ----------------------------------------------------------------------------------------------


def _with_key() -> dict[str, Callable]:
    """Every exported function that takes a key, and such methods of exported classes."""
    found = {}
    packages = (bijections, distributions, gp, graphs, inference, kernels, tr.messages, optim, tr.supervised)
    for package in packages:
        for name in package.__all__:
            thing = getattr(package, name)
            if inspect.isfunction(thing):
                found[name] = thing
            elif inspect.isclass(thing):
                methods = {k: getattr(v, "__func__", v) for k, v in vars(thing).items() if k[0] != "_"}
                found |= {f"{name}.{k}": v for k, v in methods.items() if inspect.isfunction(v)}
    return {name: each for name, each in found.items() if "key" in inspect.signature(each).parameters}


# Host work that takes a key, a whole number or a NumPy generator; steps of samplers, which `run` calls.
ASIDE = {
    "BayesNet.sample",
    "GaussianNetwork.sample",
    "HybridNetwork.sample",
    "MarkovField.gibbs",
    "random_network",
}
STEPS = ("init", "step", "start", "update", "random")


def test_every_door_with_a_key_looks_at_it_first():
    found = _with_key()
    assert len(found) > 60
    loose = [
        n for n, each in found.items() if not hasattr(each, "takes_key") and n.split(".")[-1] not in STEPS
    ]
    assert set(loose) <= ASIDE


def test_a_whole_number_is_a_seed_where_the_key_is_named():
    assert as_key(7) == jr.key(7)
    assert as_key(np.int64(7)) == jr.key(7)
    assert as_key(jr.PRNGKey(7)) == jr.key(7)
    assert as_key(KEY) is KEY
    first, second = (I.importance(quadratic, D.Normal(), key=key, num_draws=30) for key in (3, jr.key(3)))
    np.testing.assert_array_equal(first.draws, second.draws)
    for wrong in (-1, 2**63, True, 1.0, None):
        with pytest.raises((TypeError, ValueError), match="`key` must be a random key or a whole number"):
            as_key(wrong)


def test_a_support_may_be_named():
    free, rebuild = bijections.unconstrain({"mu": 0.5, "tau": 2.0}, {"tau": "positive"})
    np.testing.assert_allclose(free, [0.5, np.log(2.0)], rtol=1e-15)
    assert rebuild.names == ["mu", "tau"]
    np.testing.assert_allclose(bijections.unconstrain(2.0, "positive")[0], [np.log(2.0)], rtol=1e-15)


def test_a_leaf_of_the_data_that_is_missing_is_not_laid_on_the_start():
    def density(p, data):
        return -((p["mu"] - data["z"]) ** 2)

    with pytest.raises(KeyError, match="z"):
        tr.mcmc(density, {"mu": 0.0}, key=KEY, args=({"y": 1.0},))


def test_no_module_has_the_name_of_something_of_the_top_level():
    """Whatever was imported before, a package's attribute is its export or nothing."""
    code = """if True:
        import tractable as tr
        import tractable.distributions.positive, tractable.distributions.counts, tractable.bijections.simplex
        from tractable.distributions.positive import Weibull
        from tractable.distributions import positive as module
        assert module.Weibull is Weibull
        print(hasattr(tr.distributions, "positive"), hasattr(tr.distributions, "counts"))
        print(hasattr(tr.bijections, "simplex"))
        """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["False"] * 3


def test_properties_that_fail_keep_their_own_words():
    with pytest.raises(AttributeError, match="no closed-form mean; estimate it from draws"):
        _ = D.Concrete(jnp.zeros(2), 1.0).mean
