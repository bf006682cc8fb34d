"""Differentiable top-k: selection networks, soft selection, membership masks, and the loss.

>>> from gendr.topk import soft_topk, soft_topk_mask
>>> values, attribution = soft_topk(x, 5, "splitter", dist="cauchy", steepness=10.0)
>>> member = soft_topk_mask(x, 1000, scale=0.1)
>>> loss = TopKCrossEntropy([0.5, 0, 0, 0, 0.5])
"""

from gendr._common.names import lazily

__getattr__, __dir__, __all__ = lazily(globals())
