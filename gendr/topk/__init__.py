"""Differentiable top-k: selection networks, soft selection, membership masks, and the loss.

>>> from gendr.topk import soft_topk, soft_topk_mask
>>> values, attribution = soft_topk(x, 5, "splitter", dist="cauchy", steepness=10.0)
>>> member = soft_topk_mask(x, 1000, scale=0.1)
"""

from gendr.topk.api import Selected, soft_topk
from gendr.topk.mask import soft_topk_mask
from gendr.topk.networks import network
from gendr.topk.selection import NetworkSelection, Selection, SortSelection, get, names

__all__ = [
    "NetworkSelection",
    "Selected",
    "Selection",
    "SortSelection",
    "get",
    "names",
    "network",
    "soft_topk",
    "soft_topk_mask",
]
