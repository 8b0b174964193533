"""Layer 6: Gaussian processes: exact, sparse, iterative, state-space; regression and classification."""

from tractable.gp.classification import ClassificationProcess as ClassificationProcess
from tractable.gp.classification import fit_classification as fit_classification
from tractable.gp.conjugate_gradients import Iterative as Iterative
from tractable.gp.hyperparameter_posterior import sample_hyperparameters as sample_hyperparameters
from tractable.gp.hyperparameters import default_process as default_process
from tractable.gp.hyperparameters import evidence_surface as evidence_surface
from tractable.gp.hyperparameters import fit_hyperparameters as fit_hyperparameters
from tractable.gp.means import BasisMean as BasisMean
from tractable.gp.means import LinearMean as LinearMean
from tractable.gp.monitoring import monitor_predictions as monitor_predictions
from tractable.gp.multi_output import MultiOutputProcess as MultiOutputProcess
from tractable.gp.multi_output import fit_multi_output as fit_multi_output
from tractable.gp.multiclass import fit_multiclass as fit_multiclass
from tractable.gp.multiclass import multiclass_posterior as multiclass_posterior
from tractable.gp.noise import LogLinearNoise as LogLinearNoise
from tractable.gp.noise import RowNoise as RowNoise
from tractable.gp.regression import GaussianProcess as GaussianProcess
from tractable.gp.sparse import SparseProcess as SparseProcess
from tractable.gp.sparse import fit_sparse as fit_sparse
from tractable.gp.sparse import inducing_rows as inducing_rows
from tractable.gp.state_space import MarkovProcess as MarkovProcess
from tractable.gp.student import student_posterior as student_posterior
from tractable.gp.svgp import fit_svgp as fit_svgp
