"""Pages of reports for commands, which have no screen: the pictures are drawn without one."""

import matplotlib

matplotlib.use("agg")  # before pyplot

from tractable.plots.page import html_table, picture, verdict_box, write_page

__all__ = ["html_table", "picture", "verdict_box", "write_page"]
