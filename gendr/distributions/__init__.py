"""Distributions: the laws behind every soft decision, their transforms, and their names.

>>> from gendr import distributions
>>> str(distributions.get("gamma", shape=0.5).squared().reversed())
'gamma(shape=0.5).reversed.squared'
"""

from gendr._runtime import registry as _registry
from gendr.distributions import laws as _files
from gendr.distributions.base import Distribution, Transformed
from gendr.distributions.callable import CallableDistribution, from_callable
from gendr.distributions.law import Law, Symmetric
from gendr.distributions.laws.cauchy import Cauchy
from gendr.distributions.laws.cubic_hermite import CubicHermite
from gendr.distributions.laws.exponential import Exponential
from gendr.distributions.laws.gamma import Gamma
from gendr.distributions.laws.gaussian import Gaussian
from gendr.distributions.laws.gumbel_max import GumbelMax
from gendr.distributions.laws.gumbel_min import GumbelMin
from gendr.distributions.laws.heaviside import Heaviside
from gendr.distributions.laws.hyperbolic_secant import HyperbolicSecant
from gendr.distributions.laws.laplace import Laplace
from gendr.distributions.laws.levy import Levy
from gendr.distributions.laws.logistic import Logistic
from gendr.distributions.laws.optimal import Optimal
from gendr.distributions.laws.reciprocal import Reciprocal
from gendr.distributions.laws.uniform import Uniform
from gendr.distributions.laws.wigner_semicircle import WignerSemicircle
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

# Every file of `laws` is imported, named above or not; its class becomes an attribute here too.
_registry.import_all(_files)
for _law in laws().values():
    globals()[_law.__name__] = _law
    __all__ += [_law.__name__] * (_law.__name__ not in __all__)  # pyright: ignore[reportUnsupportedDunderAll]
