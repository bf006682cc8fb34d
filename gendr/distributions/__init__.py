"""Distributions: the laws behind every soft decision, their transforms, and their names.

>>> from gendr import distributions
>>> str(distributions.get("gamma", shape=0.5).squared().reversed())
'gamma(shape=0.5).reversed.squared'
"""

from gendr._common import registry as _registry
from gendr.distributions import laws as _files
from gendr.distributions.base import Distribution, Transformed
from gendr.distributions.callable import CallableDistribution, from_callable
from gendr.distributions.law import Law, Symmetric
from gendr.distributions.laws.cauchy import Cauchy as Cauchy
from gendr.distributions.laws.cubic_hermite import CubicHermite as CubicHermite
from gendr.distributions.laws.exponential import Exponential as Exponential
from gendr.distributions.laws.gamma import Gamma as Gamma
from gendr.distributions.laws.gaussian import Gaussian as Gaussian
from gendr.distributions.laws.gumbel_max import GumbelMax as GumbelMax
from gendr.distributions.laws.gumbel_min import GumbelMin as GumbelMin
from gendr.distributions.laws.heaviside import Heaviside as Heaviside
from gendr.distributions.laws.hyperbolic_secant import HyperbolicSecant as HyperbolicSecant
from gendr.distributions.laws.laplace import Laplace as Laplace
from gendr.distributions.laws.levy import Levy as Levy
from gendr.distributions.laws.logistic import Logistic as Logistic
from gendr.distributions.laws.optimal import Optimal as Optimal
from gendr.distributions.laws.reciprocal import Reciprocal as Reciprocal
from gendr.distributions.laws.uniform import Uniform as Uniform
from gendr.distributions.laws.wigner_semicircle import WignerSemicircle as WignerSemicircle
from gendr.distributions.registry import (
    as_distribution,
    benchmark_distributions,
    get,
    laws,
    names,
)

__all__ = [
    "CallableDistribution",
    "Distribution",
    "Law",
    "Symmetric",
    "Transformed",
    "as_distribution",
    "benchmark_distributions",
    "from_callable",
    "get",
    "laws",
    "names",
]

# Every file of `laws` counts, imported above for type checkers or not: its class is public.
_registry.import_all(_files)
for _law in laws().values():
    globals()[_law.__name__] = _law
    __all__ += [_law.__name__]  # pyright: ignore[reportUnsupportedDunderAll]
