"""gendr: a family of differentiable renderers, and the algorithms that grow from the same idea."""

from gendr import distributions, losses, tnorms
from gendr.instances import Instance, instance, instances
from gendr.mesh import (
    Camera,
    Lighting,
    Mesh,
    axis_angle_to_matrix,
    look_at,
    look_from,
    rotation_6d_to_matrix,
    rotation_angle_between,
)
from gendr.rendering import Output, Renderer, backends, silhouette
from gendr.scale import geometric_schedule, pixels_to_ndc, suggest_scale

__version__ = "0.1.0"

__all__ = [
    "Camera",
    "Instance",
    "Lighting",
    "Mesh",
    "Output",
    "Renderer",
    "axis_angle_to_matrix",
    "backends",
    "distributions",
    "geometric_schedule",
    "instance",
    "instances",
    "look_at",
    "look_from",
    "losses",
    "pixels_to_ndc",
    "rotation_6d_to_matrix",
    "rotation_angle_between",
    "silhouette",
    "suggest_scale",
    "tnorms",
]
