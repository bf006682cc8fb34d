"""The distributions behind every soft decision, their transforms, and their names.

>>> from gendr import distributions
>>> str(distributions.get("gamma", shape=0.5).squared().reversed())
'gamma(shape=0.5).reversed.squared'
"""

from gendr._common import registry as _registry
from gendr.distributions import members as _files
from gendr.distributions.base import Distribution, Transformed
from gendr.distributions.callable import CallableDistribution, from_callable
from gendr.distributions.members.cauchy import Cauchy as Cauchy
from gendr.distributions.members.cubic_hermite import CubicHermite as CubicHermite
from gendr.distributions.members.exponential import Exponential as Exponential
from gendr.distributions.members.gamma import Gamma as Gamma
from gendr.distributions.members.gaussian import Gaussian as Gaussian
from gendr.distributions.members.gumbel_max import GumbelMax as GumbelMax
from gendr.distributions.members.gumbel_min import GumbelMin as GumbelMin
from gendr.distributions.members.heaviside import Heaviside as Heaviside
from gendr.distributions.members.hyperbolic_secant import HyperbolicSecant as HyperbolicSecant
from gendr.distributions.members.laplace import Laplace as Laplace
from gendr.distributions.members.levy import Levy as Levy
from gendr.distributions.members.logistic import Logistic as Logistic
from gendr.distributions.members.optimal import Optimal as Optimal
from gendr.distributions.members.reciprocal import Reciprocal as Reciprocal
from gendr.distributions.members.uniform import Uniform as Uniform
from gendr.distributions.members.wigner_semicircle import WignerSemicircle as WignerSemicircle
from gendr.distributions.registry import (
    as_distribution,
    benchmark_distributions,
    get,
    names,
    standard_distributions,
)
from gendr.distributions.standard import StandardDistribution, Symmetric

__all__ = [
    "CallableDistribution",
    "Distribution",
    "StandardDistribution",
    "Symmetric",
    "Transformed",
    "as_distribution",
    "benchmark_distributions",
    "from_callable",
    "get",
    "names",
    "standard_distributions",
]

# Every file of `members` counts, imported above for type checkers or not: its class is public.
_registry.import_all(_files)
for _class in standard_distributions().values():
    globals()[_class.__name__] = _class
    __all__ += [_class.__name__]  # pyright: ignore[reportUnsupportedDunderAll]
