"""Optimisers, with the interface of those of torch, and other steps for losses behind algorithms.

>>> optimizer = UniformAdam(shape.parameters(), lr=0.03, betas=(0.9, 0.99))
>>> loss.backward()
>>> optimizer.step()

A loss behind an algorithm, a sort or a path, is ill-conditioned where the network is not:

>>> criterion = NewtonLoss(loss, curvature="fisher", tikhonov=0.1)     # loss(output, target) -> [N]
>>> criterion(model(x), target).backward()
"""

from gendr.optim.closed_forms import (
    BinaryCrossEntropy,
    SigmoidBinaryCrossEntropy,
    SoftmaxCrossEntropy,
)
from gendr.optim.curvature import (
    Derivatives,
    HasDerivatives,
    SampleLoss,
    Second,
    derivatives,
)
from gendr.optim.newton import NewtonLoss
from gendr.optim.resgro import RESGRO
from gendr.optim.split import SplitOptimizer, SplitPoint, split_step
from gendr.optim.steps import Curvature, GradientStep, NewtonStep, OptimizerStep, Step, Target
from gendr.optim.uniform_adam import UniformAdam, uniform_adam_step

__all__ = [
    "RESGRO",
    "BinaryCrossEntropy",
    "Curvature",
    "Derivatives",
    "GradientStep",
    "HasDerivatives",
    "NewtonLoss",
    "NewtonStep",
    "OptimizerStep",
    "SampleLoss",
    "Second",
    "SigmoidBinaryCrossEntropy",
    "SoftmaxCrossEntropy",
    "SplitOptimizer",
    "SplitPoint",
    "Step",
    "Target",
    "UniformAdam",
    "derivatives",
    "split_step",
    "uniform_adam_step",
]
