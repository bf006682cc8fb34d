from gendr.relaxed.estimators.adaptive_implicit_mle import (
    AdaptiveImplicitMLE as AdaptiveImplicitMLE,
)
from gendr.relaxed.estimators.api import Estimated as Estimated
from gendr.relaxed.estimators.api import Report as Report
from gendr.relaxed.estimators.api import estimated as estimated
from gendr.relaxed.estimators.api import names as names
from gendr.relaxed.estimators.base import Estimator as Estimator
from gendr.relaxed.estimators.black_box import BlackBox as BlackBox
from gendr.relaxed.estimators.contrastive import ContrastiveLoss as ContrastiveLoss
from gendr.relaxed.estimators.contrastive import SolutionRankingLoss as SolutionRankingLoss
from gendr.relaxed.estimators.decision_regret import regret as regret
from gendr.relaxed.estimators.fenchel_young import FenchelYoungLoss as FenchelYoungLoss
from gendr.relaxed.estimators.finite_differences import FiniteDifferences as FiniteDifferences
from gendr.relaxed.estimators.implicit_mle import ImplicitMLE as ImplicitMLE
from gendr.relaxed.estimators.neighbours import knn_costs as knn_costs
from gendr.relaxed.estimators.perturbation_gradient import (
    PerturbationGradientLoss as PerturbationGradientLoss,
)
from gendr.relaxed.estimators.perturbed import PerturbedOptimizer as PerturbedOptimizer
from gendr.relaxed.estimators.smoothed_loss import SmoothedLoss as SmoothedLoss
from gendr.relaxed.estimators.smoothing import Smoothing as Smoothing
from gendr.relaxed.estimators.solution_cache import SolutionCache as SolutionCache
from gendr.relaxed.estimators.solver_loss import SolverLoss as SolverLoss
from gendr.relaxed.estimators.spo_plus import SPOPlusLoss as SPOPlusLoss
from gendr.relaxed.estimators.straight_through import StraightThrough as StraightThrough
