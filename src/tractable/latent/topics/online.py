r"""Online variational inference of latent Dirichlet allocation: a step after each batch of documents.

Step.        $\lambda \leftarrow (1 - \rho_t)\,\lambda + \rho_t\,(\eta + \frac{D}{|B|}\,s_B)$ with $\rho_t =
             (t + d)^{-\kappa}$: a natural-gradient step on the bound, of which the batch gives an unbiased
             estimate. With all documents in one batch and $\rho = 1$ it is a step of `EM`.
Cost.        One pass over each batch; memory for one batch.
References.  Hoffman, Blei and Bach (2010); Hoffman, Blei, Wang and Paisley (2013).
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.chunks import Chunks, chunks
from tractable.core.iterate import Run, Status
from tractable.core.module import Module, field
from tractable.core.progress import track
from tractable.latent.topics.lda import LatentDirichletAllocation, TopicStatistics

__all__ = ["OnlineTopics", "natural_step"]


class OnlineTopics(Module):
    """Reads documents in batches and moves the topics after each; fit with `tractable.fit(model, rows,
    OnlineTopics())`.

    The trace is the bound per document of each batch under the topics before they saw it. `total` is the
    number of documents that the topics are to be fitted to, where a stream does not say it.
    """

    power: float = 0.7
    delay: float = 10.0
    passes: int = field(static=True, default=1)
    total: float | None = None

    def fit(self, model: LatentDirichletAllocation, data: Any, *, chunk: int = 256, weights: Any = None,
            progress: bool = False) -> Run:  # fmt: skip
        """The model after the last batch as `run.state`."""
        check(0.5 < self.power <= 1, "power", "above 1/2 and at most 1", self.power)
        check(self.delay >= 1, "delay", "at least 1", self.delay)
        parts = data if isinstance(data, Chunks) else chunks(data, check_count("chunk", chunk), weights)
        total = self.total if self.total is not None else self._known(parts, weights)
        values, t = [], 0
        for _ in range(check_count("passes", self.passes)):
            for rows, amounts in track(parts, label="Online topics", progress=progress):
                stats, bound = model.e_step(*_on_host(rows, amounts))
                model = natural_step(model, stats, total, (t + self.delay) ** -self.power)
                values.append(float(bound) / float(stats.documents))
                t += 1
        trace = jnp.asarray(np.array(values))
        return Run(model, trace, jnp.asarray(t), jnp.asarray(int(Status.completed)))

    def _known(self, parts: Chunks, weights: Any) -> float:
        fix = "Give `OnlineTopics(total=...)`, the number of documents."
        check(parts.num_rows is not None, "total", "given where a stream does not say its length", None, fix)
        return float(parts.num_rows or 0) if weights is None else float(np.sum(weights))


def natural_step(
    model: LatentDirichletAllocation, stats: TopicStatistics, total: float, rate: float
) -> LatentDirichletAllocation:
    """The model after one step of size `rate` with the statistics of a batch of `total` documents."""
    scale = total / float(stats.documents)
    target = np.asarray(model.word_prior) + scale * np.asarray(stats.words)
    counts = (1 - rate) * np.asarray(model.topic_counts) + rate * target
    return type(model)(
        model.document_prior, model.word_prior, counts, model.learn, model.max_updates, model.tol
    )


def _on_host(rows: Any, weights: Any) -> tuple[Any, np.ndarray]:
    tables = tuple(np.asarray(each) for each in rows) if isinstance(rows, tuple) else np.asarray(rows)
    return tables, np.asarray(weights)
