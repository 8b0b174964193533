"""The table of a posterior as a pandas frame that prints its verdict. Imported when a table is asked for.

Columns.     mean, sd, one per quantile (`q5`), mcse, ess_bulk, ess_tail, rhat; one row per scalar variable.
Cost.        The import of pandas.
"""

import html

import pandas as pd

from tractable.inference.trust.chain_report import ChainReport

__all__ = ["SummaryTable", "summary_table"]

_SHOWN = 60  # rows that are printed; the rest are there all the same


class SummaryTable(pd.DataFrame):
    """A frame that prints, below its rows, whether they are to be trusted; what is cut from it is plain."""

    @property
    def _constructor(self):
        return pd.DataFrame

    def __repr__(self) -> str:
        shown = self.to_string(formatters=_formatters(self.columns), max_rows=_SHOWN)
        return f"{shown}\n{self.attrs['verdict']}"

    def _repr_html_(self) -> str:
        shown = self.to_html(formatters=_formatters(self.columns), max_rows=_SHOWN)
        return f"{shown}<p>{html.escape(self.attrs['verdict'])}</p>"


def summary_table(
    report: ChainReport,
    probs: tuple[float, ...],
    names: list[str],
    sentence: str,
    *,
    diagnostics: bool = True,
) -> SummaryTable:
    """The rows `names` of the report with quantiles at `probs`, and the sentence of the verdict.

    The `diagnostics` of chains are left out where draws are independent.
    """
    places = {name: place for place, name in enumerate(report.names)}
    rows = [places[name] for name in names]
    quantiles = {f"q{100 * prob:g}": report.quantiles[:, report.probs.index(prob)] for prob in probs}
    columns = {"mean": report.mean, "sd": report.sd, **quantiles, "mcse": report.mcse}
    if diagnostics:
        columns |= {"ess_bulk": report.ess_bulk, "ess_tail": report.ess_tail, "rhat": report.rhat}
    table = SummaryTable({name: values[rows] for name, values in columns.items()}, index=names)
    table.attrs["verdict"] = sentence
    return table


def _formatters(columns: pd.Index) -> dict:
    forms = {"ess_bulk": "{:.0f}", "ess_tail": "{:.0f}", "rhat": "{:.3f}"}
    return {name: forms.get(name, "{:.4g}").format for name in columns}
