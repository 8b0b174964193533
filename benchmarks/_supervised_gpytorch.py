"""GPyTorch: exact and stochastic variational regression as documented there, behind `fit` and `predict`.

Its defaults are left as they are: above 800 rows it trains by conjugate gradients, which takes a third of the
time of its Cholesky factors. Predictions are those of its tutorials, with cached variances (`fast_pred_var`).
"""

import os
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads burn no core that others need

import gpytorch
import numpy as np
import torch

torch.set_default_dtype(torch.float64)


class _Exact(gpytorch.models.ExactGP):
    def __init__(self, X: Any, y: Any, likelihood: Any):
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))

    def forward(self, x: Any) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class _Sparse(gpytorch.models.ApproximateGP):
    def __init__(self, inducing: Any):
        distribution = gpytorch.variational.CholeskyVariationalDistribution(inducing.shape[0])
        super().__init__(
            gpytorch.variational.VariationalStrategy(
                self, inducing, distribution, learn_inducing_locations=True
            )
        )
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.RBFKernel(ard_num_dims=inducing.shape[1])
        )

    def forward(self, x: Any) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class _Process:
    """What both share: standardised targets and predictions with the noise."""

    likelihood: Any
    model: Any

    def _scaled(self, X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
        self.centre, self.spread = y.mean(), y.std()
        return torch.as_tensor(X), torch.as_tensor((y - self.centre) / self.spread)

    def predict(self, X: np.ndarray, return_std: bool = False) -> Any:
        """The predictive mean, and the standard deviation if asked for."""
        self.model.eval()
        self.likelihood.eval()
        with torch.no_grad(), gpytorch.settings.fast_pred_var():
            found = self.likelihood(self.model(torch.as_tensor(X)))
        mean = found.mean.numpy() * self.spread + self.centre
        return (mean, found.stddev.numpy() * self.spread) if return_std else mean


class ExactProcess(_Process):
    """A hundred steps of Adam on the exact log marginal likelihood."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "ExactProcess":
        """Learn the hyperparameters."""
        inputs, targets = self._scaled(X, y)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()
        self.model = _Exact(inputs, targets, self.likelihood)
        self.model.train()
        self.likelihood.train()
        optimiser = torch.optim.Adam(self.model.parameters(), lr=0.1)
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self.model)
        for _ in range(100):
            optimiser.zero_grad()
            loss: Any = -objective(self.model(inputs), targets)  # pyright: ignore[reportOperatorIssue]
            loss.backward()
            optimiser.step()
        return self


class SparseProcess(_Process):
    """Ten passes of Adam over batches of 1024 rows with 256 inducing points."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "SparseProcess":
        """Learn inducing points, their distribution and the hyperparameters."""
        inputs, targets = self._scaled(X, y)
        torch.manual_seed(0)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()
        self.model = _Sparse(inputs[torch.randperm(len(inputs))[:256]].clone())
        self.model.train()
        self.likelihood.train()
        parameters = [*self.model.parameters(), *self.likelihood.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=0.01)
        objective = gpytorch.mlls.VariationalELBO(self.likelihood, self.model, num_data=len(inputs))
        for _ in range(10):
            for rows in torch.randperm(len(inputs)).split(1024):
                optimiser.zero_grad()
                loss: Any = -objective(self.model(inputs[rows]), targets[rows])  # pyright: ignore[reportOperatorIssue]
                loss.backward()
                optimiser.step()
        return self
