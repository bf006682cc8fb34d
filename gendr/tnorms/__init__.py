"""T-conorms and T-norms: real-valued 'or' and 'and'.

    >>> yager = tconorm("yager", p=2)          # or tconorm("yager(p=2)")
    >>> yager(torch.tensor(0.3), torch.tensor(0.4))
    tensor(0.5000)

Source: thesis section 5.3 and appendix B.
"""

from gendr._runtime import registry as _registry
from gendr.tnorms import families as _files
from gendr.tnorms.base import Archimedean, Parametric, TConorm, TNorm
from gendr.tnorms.base import has_parameter as has_parameter
from gendr.tnorms.families.aczel_alsina import AczelAlsina
from gendr.tnorms.families.average import Average
from gendr.tnorms.families.dombi import Dombi
from gendr.tnorms.families.einstein import Einstein
from gendr.tnorms.families.frank import Frank
from gendr.tnorms.families.hamacher import Hamacher
from gendr.tnorms.families.max import Max
from gendr.tnorms.families.probabilistic import Probabilistic
from gendr.tnorms.families.schweizer_sklar import SchweizerSklar
from gendr.tnorms.families.yager import Yager
from gendr.tnorms.registry import (
    as_tconorm,
    benchmark_tconorms,
    family,
    names,
    tconorm,
    tnorm,
)

__all__ = [
    "AczelAlsina",
    "Archimedean",
    "Average",
    "Dombi",
    "Einstein",
    "Frank",
    "Hamacher",
    "Max",
    "Parametric",
    "Probabilistic",
    "SchweizerSklar",
    "TConorm",
    "TNorm",
    "Yager",
    "as_tconorm",
    "benchmark_tconorms",
    "family",
    "names",
    "tconorm",
    "tnorm",
]

# Every file of a family counts, named above or not; its class is an attribute of this package too.
_registry.import_all(_files)
for _family in map(family, names()):
    globals()[_family.__name__] = _family
    __all__ += [_family.__name__] * (_family.__name__ not in __all__)  # pyright: ignore[reportUnsupportedDunderAll]
