"""Layer 4: exact contraction. Messages on chains, trees, loops and junction trees, over any semiring."""

from tractable.messages.chain import contract_chain as contract_chain
from tractable.messages.chain import forward_backward as forward_backward
from tractable.messages.chain_paths import best_path as best_path
from tractable.messages.chain_paths import best_paths as best_paths
from tractable.messages.chain_paths import sample_paths as sample_paths
from tractable.messages.constraints import Constraints as Constraints
from tractable.messages.constraints import from_clauses as from_clauses
from tractable.messages.cost import Budget as Budget
from tractable.messages.cost import TooLarge as TooLarge
from tractable.messages.elimination import elimination_order as elimination_order
from tractable.messages.gaussian_beliefs import gaussian_propagate as gaussian_propagate
from tractable.messages.gaussian_beliefs import grid_propagate as grid_propagate
from tractable.messages.gaussian_chain import GaussianChain as GaussianChain
from tractable.messages.junction import junction_tree as junction_tree
from tractable.messages.loopy import loopy as loopy
from tractable.messages.maximum import most_probable as most_probable
from tractable.messages.potentials import Table as Table
from tractable.messages.quadratic import Quadratic as Quadratic
from tractable.messages.semirings import Semiring as Semiring
from tractable.messages.tree import joint_by_clamping as joint_by_clamping
from tractable.messages.tree import propagate as propagate
from tractable.messages.treewidth import exact_treewidth as exact_treewidth
from tractable.messages.variable_elimination import eliminate as eliminate
