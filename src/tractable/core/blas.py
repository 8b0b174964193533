"""One thread of the linear algebra where several would spend their time waiting for each other.

Why.         A BLAS with several threads makes them meet in every product. With matrices of a few hundred
             rows, with rows a thousand times as many as columns, or on a machine that others use too, the
             waiting takes ten to a hundred times as long as the work.
Cost.        Microseconds; the loaded libraries are looked up once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import threadpoolctl

__all__ = ["one_blas_thread"]


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """Inside, products and factors of NumPy, SciPy and JAX use one thread, if `wanted`."""
    with _libraries().limit(limits=1 if wanted else None, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _libraries() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()
