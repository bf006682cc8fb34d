"""Gradients for what stays hard: estimators for any Python or NumPy function of arrays.

>>> soft = estimated(dijkstra, "smoothing", samples=10, scale=0.5)      # an array to an array
>>> path = soft(costs)                                                  # [B, H, W]; path.backward()
>>> soft.report.variance                                                # of this gradient
"""

from gendr.relaxed.estimators.api import Estimated, Report, estimated, names
from gendr.relaxed.estimators.api import estimators as estimators  # its old name, with a warning
from gendr.relaxed.estimators.base import Estimator
from gendr.relaxed.estimators.black_box import BlackBox
from gendr.relaxed.estimators.fenchel_young import FenchelYoungLoss
from gendr.relaxed.estimators.finite_differences import FiniteDifferences
from gendr.relaxed.estimators.perturbed import PerturbedOptimizer
from gendr.relaxed.estimators.smoothed_loss import SmoothedLoss
from gendr.relaxed.estimators.smoothing import Smoothing
from gendr.relaxed.estimators.straight_through import StraightThrough

__all__ = [
    "BlackBox",
    "Estimated",
    "Estimator",
    "FenchelYoungLoss",
    "FiniteDifferences",
    "PerturbedOptimizer",
    "Report",
    "SmoothedLoss",
    "Smoothing",
    "StraightThrough",
    "estimated",
    "names",
]
