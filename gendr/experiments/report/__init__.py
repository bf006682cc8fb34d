"""What the results of a grid look like: ranked, as figures of a paper and as one page."""

from gendr.experiments.report.page import make_page
from gendr.experiments.report.summary import Summary, load_summaries

__all__ = ["Summary", "load_summaries", "make_page"]
