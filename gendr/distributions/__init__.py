"""Distributions: the laws behind every soft decision, their transforms, and their names.

>>> from gendr import distributions
>>> str(distributions.get("gamma", shape=0.5).squared().reversed())
'gamma(shape=0.5).reversed.squared'
"""

# isort: off
# The laws in the order of the papers' table, which is the order of names().
from gendr.distributions.heaviside import Heaviside
from gendr.distributions.uniform import Uniform
from gendr.distributions.cubic_hermite import CubicHermite
from gendr.distributions.wigner_semicircle import WignerSemicircle
from gendr.distributions.gaussian import Gaussian
from gendr.distributions.laplace import Laplace
from gendr.distributions.logistic import Logistic
from gendr.distributions.hyperbolic_secant import HyperbolicSecant
from gendr.distributions.cauchy import Cauchy
from gendr.distributions.reciprocal import Reciprocal
from gendr.distributions.gumbel_max import GumbelMax
from gendr.distributions.gumbel_min import GumbelMin
from gendr.distributions.exponential import Exponential
from gendr.distributions.gamma import Gamma
from gendr.distributions.levy import Levy
from gendr.distributions.optimal import Optimal

# isort: on
from gendr.distributions.base import Distribution, Transformed
from gendr.distributions.callable import CallableDistribution, from_callable
from gendr.distributions.law import Law, Symmetric
from gendr.distributions.registry import (
    as_distribution,
    benchmark_distributions,
    get,
    laws,
    names,
)

__all__ = [
    "CallableDistribution",
    "Cauchy",
    "CubicHermite",
    "Distribution",
    "Exponential",
    "Gamma",
    "Gaussian",
    "GumbelMax",
    "GumbelMin",
    "Heaviside",
    "HyperbolicSecant",
    "Laplace",
    "Law",
    "Levy",
    "Logistic",
    "Optimal",
    "Reciprocal",
    "Symmetric",
    "Transformed",
    "Uniform",
    "WignerSemicircle",
    "as_distribution",
    "benchmark_distributions",
    "from_callable",
    "get",
    "laws",
    "names",
]
