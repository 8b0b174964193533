"""Components of measurements with gaps: how many, what they are, and what was missing.

Rows of eight columns made by two factors; one entry in ten is missing. The evidence finds the number of
factors, factor analysis the loadings (turned to simple structure), and the model fills the gaps.
"""

import numpy as np

import tractable as tr
from tractable.latent import FactorAnalysis, PrincipalComponents, dimension_evidence, varimax

rng = np.random.default_rng(0)
loadings = np.kron(np.eye(2), np.ones((4, 1)))
rows = rng.normal(size=(1000, 2)) @ loadings.T + 0.4 * rng.normal(size=(1000, 8)) + 5.0

evidence = dimension_evidence(rows)
print(evidence)

found = PrincipalComponents.fit(rows, evidence.best)
print(found)

missing = rng.uniform(size=rows.shape) < 0.1
fitted = FactorAnalysis.fit(np.where(missing, np.nan, rows), evidence.best)
print(fitted)
simple = varimax(fitted.model.loadings)
print(simple.loadings.round(2))

filled = fitted.model.impute(np.where(missing, np.nan, rows))
error = np.sqrt(((filled - rows)[missing] ** 2).mean())
print(f"entries that were missing: off by {error:.2f}, noise 0.40, columns vary by {rows.std():.2f}")

assert evidence.best == 2
assert fitted.verdict.ok
assert (np.sort(np.abs(simple.loadings), 1)[:, 0] < 0.15).all()
assert error < 0.55
ax = tr.plot(found)
