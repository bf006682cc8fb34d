"""gendr: a family of differentiable renderers, and the algorithms that grow from the same idea.

Names are imported when they are first used, so that `gendr --help` does not wait for torch.
"""

from gendr._common.names import lazily, warn_of_namesake

__version__ = "0.1.0"

warn_of_namesake(__file__)

__getattr__, __dir__, __all__ = lazily(globals())
