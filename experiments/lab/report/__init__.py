"""Views of the results of a grid: a ranking, figures for papers, and a page."""

from lab.report.page import make_page
from lab.report.summary import Summary, load_summaries

__all__ = ["Summary", "load_summaries", "make_page"]
