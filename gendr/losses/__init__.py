"""Objectives: how well images and shapes agree, and how smooth a mesh is.

Image losses take [B, H, W] (or [B, C, H, W]), mesh losses a packed `Mesh`; every loss returns a
scalar that is a mean over images or meshes, so that weights do not depend on the batch size. The
regularisers exist as a function of a mesh, and as a module that is built once per topology and
takes tensors of vertices. Their
operators are lists of edges: time and memory are O(V + F).
"""

from gendr.losses.images import iou, iou_loss, mse_loss, psnr, ssim
from gendr.losses.meshes import (
    FlattenLoss,
    LaplacianLoss,
    edge_length_loss,
    flatten_loss,
    laplacian_loss,
    normal_consistency_loss,
)
from gendr.losses.points import chamfer, chamfer_distance

__all__ = [
    "FlattenLoss",
    "LaplacianLoss",
    "chamfer",
    "chamfer_distance",
    "edge_length_loss",
    "flatten_loss",
    "iou",
    "iou_loss",
    "laplacian_loss",
    "mse_loss",
    "normal_consistency_loss",
    "psnr",
    "ssim",
]
