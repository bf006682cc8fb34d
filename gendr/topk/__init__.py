"""Differentiable top-k: selection networks, soft selection, membership masks, and the loss.

>>> from gendr.topk import soft_topk, soft_topk_mask
>>> values, attribution = soft_topk(x, 5, "splitter", dist="cauchy", steepness=10.0)
>>> member = soft_topk_mask(x, 1000, scale=0.1)
>>> loss = TopKCrossEntropy([0.5, 0, 0, 0, 0.5])
"""

from gendr.topk.api import Selected, SoftTopK, soft_topk
from gendr.topk.losses import SmoothTopKSVM, TopKCrossEntropy, topk_accuracy
from gendr.topk.mask import SoftTopKMask, soft_topk_mask
from gendr.topk.networks import network
from gendr.topk.selection import NetworkSelection, Selection, SortSelection, get, names

__all__ = [
    "NetworkSelection",
    "Selected",
    "Selection",
    "SmoothTopKSVM",
    "SoftTopK",
    "SoftTopKMask",
    "SortSelection",
    "TopKCrossEntropy",
    "get",
    "names",
    "network",
    "soft_topk",
    "soft_topk_mask",
    "topk_accuracy",
]
