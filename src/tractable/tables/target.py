r"""What is asked of a target: which family of predictive distributions fits the values that it has.

Rules.       In this order, for the values $y_1, \dots, y_n$ that are there:
             *censored*    there is an `event` column beside $y$;
             *ordered*     an ordered category, or words with a known order;
             *binary*, *classes*   truth values and words; two distinct numbers; codes: the whole numbers from
                           zero or one to $K \le 20$, of which the largest is not rare, as of counts it is;
             *proportion*  $0 \le y \le 1$ with values strictly inside;
             *count*       whole numbers from zero whose steps matter: some $y = 0$, or the median is at most
                           `_SMALL`;
             *positive*    $y > 0$ and skewed, $\max y / \mathrm{median} \ge$ `_SPREAD`;
             *number*      everything else.
Cost.        One pass.
"""

from typing import Any

import numpy as np

__all__ = ["TASKS", "order_of", "series_of", "target_task"]

TASKS = ("number", "positive", "proportion", "count", "binary", "classes", "ordered", "censored")
_SMALL = 20.0
_SPREAD = 4.0
_MOST_CODES = 20  # classes
_ROWS_OF_CODE = 10  # on average


def target_task(y: Any, event: Any = None) -> str:
    """The task of a target: "number", "positive", "proportion", "count", "binary", "classes", "ordered" or
    "censored".

    >>> target_task([1.5, -2.0, 3.1]), target_task(["a", "b", "a"]), target_task([0, 3, 1, 2])
    ('number', 'binary', 'count')
    """
    if event is not None:
        return "censored"
    column = series_of(y)
    numbers = _numbers(column)
    if numbers is not None:
        return _task_of_numbers(numbers)
    order = order_of(column)
    if order is not None:
        return "ordered"
    return "classes" if column.nunique() > 2 else "binary"


def order_of(column: Any) -> list[str] | None:
    """The levels of a target of words in their order, None where they have none."""
    import pandas as pd

    from tractable.tables.cells import factorised, is_words
    from tractable.tables.scales import in_order

    if isinstance(column.dtype, pd.CategoricalDtype):
        return [str(level) for level in column.cat.categories] if column.cat.ordered else None
    return in_order(factorised(column)[1]) if is_words(column) else None


def _task_of_numbers(values: np.ndarray) -> str:
    distinct = np.unique(values[:10_000])
    if len(distinct) <= 2 and len(np.unique(values)) <= 2:
        return "binary" if len(distinct) == 2 else "number"
    if len(distinct) <= _MOST_CODES and _are_codes(values):
        return "classes"
    low, high, middle = values.min(), values.max(), float(np.median(values))
    if low >= 0 and (values == np.floor(values)).all() and (low == 0 or middle <= _SMALL):
        return "count"
    if low >= 0 and high <= 1:
        return "proportion"
    return "positive" if low > 0 and high >= _SPREAD * middle else "number"


def _are_codes(values: np.ndarray) -> bool:
    """Whether whole numbers are codes of classes."""
    codes, counts = np.unique(values, return_counts=True)
    number = len(codes)
    if not 3 <= number <= _MOST_CODES or len(values) < _ROWS_OF_CODE * number or codes[0] not in (0, 1):
        return False
    return bool((np.diff(codes) == 1).all() and counts[-1] >= len(values) / (4 * number))


def series_of(y: Any) -> Any:
    """A target as one column with a value in it."""
    import pandas as pd

    from tractable.tables.files import WrongTable

    shape = np.shape(y)
    if len(shape) != 1:
        raise WrongTable(f"`y` must be one column; got shape {shape}.")
    column = pd.Series(y).infer_objects()
    if not bool(column.notna().any()):
        raise WrongTable("the target must have a value in at least one row; got none.")
    return column


def _numbers(column: Any) -> np.ndarray | None:
    """The values that are there, if they are numbers."""
    import pandas as pd

    from tractable.tables.cells import is_words, numbers_of

    if is_words(column) or isinstance(column.dtype, pd.CategoricalDtype) or column.dtype.kind in "bM":
        return None
    values = numbers_of(column)
    values = values[~np.isnan(values)]
    return values if len(values) else None
