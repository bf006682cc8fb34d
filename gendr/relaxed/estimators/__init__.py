"""Gradients for what stays hard: estimators for any Python or NumPy function of arrays.

>>> soft = estimated(dijkstra, "smoothing", samples=10, scale=0.5)      # an array to an array
>>> path = soft(costs)                                                  # [B, H, W]; path.backward()
>>> soft.report.variance                                                # of this gradient

And losses around solvers of linear problems, min or max over w of <x, w>:

>>> loss = SPOPlusLoss(dijkstra, minimize=True)
>>> loss(predicted, costs, paths).backward()
>>> regret(predicted, costs, dijkstra, minimize=True)
"""

from gendr.relaxed.estimators.adaptive_implicit_mle import AdaptiveImplicitMLE
from gendr.relaxed.estimators.api import Estimated, Report, estimated, names
from gendr.relaxed.estimators.base import Estimator
from gendr.relaxed.estimators.black_box import BlackBox
from gendr.relaxed.estimators.contrastive import ContrastiveLoss, SolutionRankingLoss
from gendr.relaxed.estimators.fenchel_young import FenchelYoungLoss
from gendr.relaxed.estimators.finite_differences import FiniteDifferences
from gendr.relaxed.estimators.implicit_mle import ImplicitMLE
from gendr.relaxed.estimators.neighbours import knn_costs
from gendr.relaxed.estimators.perturbation_gradient import PerturbationGradientLoss
from gendr.relaxed.estimators.perturbed import PerturbedOptimizer
from gendr.relaxed.estimators.regret import regret
from gendr.relaxed.estimators.smoothed_loss import SmoothedLoss
from gendr.relaxed.estimators.smoothing import Smoothing
from gendr.relaxed.estimators.solution_cache import SolutionCache
from gendr.relaxed.estimators.solver_loss import SolverLoss
from gendr.relaxed.estimators.spo_plus import SPOPlusLoss
from gendr.relaxed.estimators.straight_through import StraightThrough

__all__ = [
    "AdaptiveImplicitMLE",
    "BlackBox",
    "ContrastiveLoss",
    "Estimated",
    "Estimator",
    "FenchelYoungLoss",
    "FiniteDifferences",
    "ImplicitMLE",
    "PerturbationGradientLoss",
    "PerturbedOptimizer",
    "Report",
    "SPOPlusLoss",
    "SmoothedLoss",
    "Smoothing",
    "SolutionCache",
    "SolutionRankingLoss",
    "SolverLoss",
    "StraightThrough",
    "estimated",
    "knn_costs",
    "names",
    "regret",
]
