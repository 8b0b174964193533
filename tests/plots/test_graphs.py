"""Pictures of graphical models: what is drawn is what the graph says."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from tractable.graphs.dag import DAG
from tractable.graphs.factor_graph import FactorGraph
from tractable.graphs.ising import ising_field
from tractable.plots.graph_layout import layered_layout
from tractable.plots.graphs import (
    plot_dag,
    plot_factor_graph,
    plot_junction_tree,
    plot_model,
    plot_moral_steps,
    plot_undirected,
)

ASIA = DAG(
    {
        "asia": [], "tub": ["asia"], "smoke": [], "lung": ["smoke"], "bronc": ["smoke"],
        "either": ["lung", "tub"], "xray": ["either"], "dysp": ["bronc", "either"],
    }
)  # fmt: skip


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def _patches(ax):
    return {patch.get_gid(): patch for patch in ax.patches}


def test_layers_put_parents_above_and_nodes_apart():
    at = layered_layout(ASIA)
    assert all(at[parent][1] > at[child][1] for parent, child in ASIA.edges)
    distances = [np.hypot(*np.subtract(at[a], at[b])) for a, b in itertools.combinations(ASIA.names, 2)]
    assert min(distances) >= 1.0


def test_barycentres_undo_crossings():
    crossed = DAG({"a": [], "b": [], "c": [], "x": ["c"], "y": ["b"], "z": ["a"]})
    at = layered_layout(crossed)
    tops, feet = sorted("abc", key=lambda n: at[n][0]), sorted("xyz", key=lambda n: at[n][0])
    child = {"a": "z", "b": "y", "c": "x"}
    assert [child[n] for n in tops] == feet


def test_observed_nodes_are_shaded_and_edges_are_arrows():
    ax = plot_dag(ASIA, observed=["xray", "dysp"])
    drawn = _patches(ax)
    assert to_rgb(drawn["xray"].get_facecolor()[:3]) == to_rgb("0.8")
    assert to_rgb(drawn["lung"].get_facecolor()[:3]) == to_rgb("white")
    assert {gid for gid in drawn if "->" in gid} == {f"{a}->{b}" for a, b in ASIA.edges}
    assert {text.get_text() for text in ax.texts} >= set(ASIA.names)


@pytest.mark.parametrize("name", ["bayesian_regression", "predictive", "vae"])
def test_textbook_models_have_plates_dots_and_shades(name):
    drawn = _patches(plot_model(name))
    frame = drawn["N"].get_window_extent()
    seen = "x_n" if name == "vae" else "y_n"
    assert to_rgb(drawn[seen].get_facecolor()[:3]) == to_rgb("0.8")
    dots = {
        gid
        for gid, patch in drawn.items()
        if patch.get_facecolor()[:3] == (0, 0, 0) and hasattr(patch, "center")
    }
    expected = {
        "bayesian_regression": {"α", "β", "x_n"}, "predictive": {"α", "β", "x_n", "x"}, "vae": {"θ", "φ"},
    }  # fmt: skip
    assert dots == expected[name]
    nodes = {gid: patch for gid, patch in drawn.items() if hasattr(patch, "center")}
    inside = {
        gid for gid, patch in nodes.items() if frame.contains(*patch.axes.transData.transform(patch.center))
    }
    assert inside == {gid for gid in nodes if gid.endswith("_n")}
    assert ("x_n->z_n" in drawn) is (name == "vae")


def test_nested_plates_hold_their_own_alone():
    dag = DAG({"α": [], "θ": ["α"], "z": ["θ"], "φ": [], "w": ["z", "φ"]})
    plates = {"D": ["θ", "z", "w"], "N": ["z", "w"], "K": ["φ"]}
    drawn = _patches(plot_dag(dag, observed="w", plates=plates))
    for label, members in plates.items():
        frame = drawn[label].get_window_extent()
        held = {n for n in dag.names if frame.contains(*drawn[n].axes.transData.transform(drawn[n].center))}
        assert held == set(members)
    outer, inner = drawn["D"].get_window_extent(), drawn["N"].get_window_extent()
    assert outer.x0 < inner.x0
    assert outer.x1 > inner.x1
    with pytest.raises(ValueError, match="`plates` must be nested or apart; got 'P' and 'Q', which cross"):
        plot_dag(dag, plates={"P": ["θ", "z"], "Q": ["z", "w"]})


@pytest.mark.parametrize("layout", ["free", "bipartite"])
def test_factor_graphs_have_squares_and_circles(layout):
    graph = FactorGraph.parse("f1(x1,x2)f2(x2,x3,x4)f3(x3,x4)")
    drawn = _patches(plot_factor_graph(graph, observed="x1", layout=layout))
    assert {gid for gid, patch in drawn.items() if type(patch).__name__ == "Rectangle"} == {"f1", "f2", "f3"}
    assert {gid for gid in drawn if "-" in gid} == {f"{v}-{f}" for v, f in graph.edges}
    centres = {gid: patch.get_center() for gid, patch in drawn.items() if hasattr(patch, "get_center")}
    columns = {round(float(centres[v][0]), 9) for v in graph.variables}
    assert (len(columns) == 1) is (layout == "bipartite")


def test_undirected_graphs_in_several_parts():
    field = ising_field([("a", "b"), ("b", "c"), ("d", "e")])
    drawn = _patches(plot_undirected(field, observed="a"))
    assert {gid for gid in drawn if "-" in gid} == {"a-b", "b-c", "d-e"}
    centres = [drawn[n].center for n in "abcde"]
    assert min(np.hypot(*np.subtract(p, q)) for p, q in itertools.combinations(centres, 2)) > 0.9


def test_junction_trees_show_bags_and_separators():
    bags, parents = [("B", "C", "E"), ("A", "B", "C"), ("A", "C", "D"), ("C", "D", "F")], [1, 2, 3, -1]
    ax = plot_junction_tree(bags, parents)
    texts = [text.get_text() for text in ax.texts]
    assert sorted(texts) == sorted(["B, C, E", "A, B, C", "A, C, D", "C, D, F", "B, C", "A, C", "C, D"])
    numbered = plot_junction_tree([(0, 1), (1, 2)], [1, -1], ["rain", "wet", "slip"])
    assert "rain, wet" in [text.get_text() for text in numbered.texts]
    with pytest.raises(ValueError, match="`parents` must be one per bag, 2; got 1"):
        plot_junction_tree([(0, 1), (1, 2)], [-1])


def test_moral_steps_side_by_side():
    axes = plot_moral_steps(ASIA.moral_separation("asia", "smoke", "dysp"))
    assert axes[2].get_title() == "path asia - tub - lung - smoke"
    assert "tub-lung" in _patches(axes[1])
    assert "dysp" not in _patches(axes[2])


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="`observed` must be among"):
        plot_dag(ASIA, observed="rain")
    with pytest.raises(ValueError, match=r"`plates\['N'\]` must be about at least one node"):
        plot_dag(ASIA, plates={"N": []})
    with pytest.raises(ValueError, match="`name` must be one of"):
        plot_model("transformer")
