"""Differentiable top-k: selection networks, soft selection, membership masks, and the loss.

>>> from gendr.topk import network
>>> network("splitter", 16, 5).depth
10
"""

from gendr.topk.mask import soft_topk_mask
from gendr.topk.networks import network

__all__ = ["network", "soft_topk_mask"]
