"""T-conorms and T-norms: real-valued 'or' and 'and'.

    >>> yager = tconorm("yager", p=2)          # or tconorm("yager(p=2)")
    >>> yager(torch.tensor(0.3), torch.tensor(0.4))
    tensor(0.5000)

Source: thesis section 5.3 and appendix B.
"""

from gendr._common import registry as _registry
from gendr.tnorms import families as _files
from gendr.tnorms.base import Archimedean, Parametric, TConorm, TNorm
from gendr.tnorms.base import has_parameter as has_parameter
from gendr.tnorms.families.aczel_alsina import AczelAlsina as AczelAlsina
from gendr.tnorms.families.average import Average as Average
from gendr.tnorms.families.dombi import Dombi as Dombi
from gendr.tnorms.families.einstein import Einstein as Einstein
from gendr.tnorms.families.frank import Frank as Frank
from gendr.tnorms.families.hamacher import Hamacher as Hamacher
from gendr.tnorms.families.max import Max as Max
from gendr.tnorms.families.probabilistic import Probabilistic as Probabilistic
from gendr.tnorms.families.schweizer_sklar import SchweizerSklar as SchweizerSklar
from gendr.tnorms.families.yager import Yager as Yager
from gendr.tnorms.groups import Along, Segments
from gendr.tnorms.registry import (
    as_tconorm,
    benchmark_tconorms,
    family,
    names,
    tconorm,
    tnorm,
)

__all__ = [
    "Along",
    "Archimedean",
    "Parametric",
    "Segments",
    "TConorm",
    "TNorm",
    "as_tconorm",
    "benchmark_tconorms",
    "family",
    "names",
    "tconorm",
    "tnorm",
]

# Every file of a family counts, imported above for type checkers or not: its class is public.
_registry.import_all(_files)
for _family in map(family, names()):
    globals()[_family.__name__] = _family
    __all__ += [_family.__name__]  # pyright: ignore[reportUnsupportedDunderAll]
