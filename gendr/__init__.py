"""gendr: a family of differentiable renderers, and the algorithms that grow from the same idea.

Names are imported when they are first used, so that `gendr --help` does not wait for torch.
"""

from typing import TYPE_CHECKING

from gendr._common.names import lazily, warn_of_namesake

__version__ = "0.1.0"

warn_of_namesake(__file__)

if TYPE_CHECKING:
    from gendr import (
        distributions,
        logic,
        losses,
        mesh,
        optim,
        photos,
        primitives,
        relaxed,
        rendering,
        soft,
        sorting,
        splatting,
        tnorms,
        topk,
        transport,
    )
    from gendr.kernels.backends import backends
    from gendr.kernels.threads import set_num_threads
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
    from gendr.photos.fitting import (
        FitResult,
        FitSettings,
        RemeshingAdam,
        SmoothParametrization,
        fit,
        fit_colors,
        fit_pose,
        refine_cameras,
        refine_shape,
    )
    from gendr.relaxed import relax
    from gendr.rendering import Output, Renderer, silhouette
    from gendr.rendering.instances import Instance, instance, instances
    from gendr.rendering.scale import geometric_schedule, pixels_to_ndc, suggest_scale

__all__ = [
    "Camera",
    "FitResult",
    "FitSettings",
    "Instance",
    "Lighting",
    "Mesh",
    "Output",
    "RemeshingAdam",
    "Renderer",
    "SmoothParametrization",
    "axis_angle_to_matrix",
    "backends",
    "distributions",
    "fit",
    "fit_colors",
    "fit_pose",
    "geometric_schedule",
    "instance",
    "instances",
    "logic",
    "look_at",
    "look_from",
    "losses",
    "mesh",
    "optim",
    "photos",
    "pixels_to_ndc",
    "primitives",
    "refine_cameras",
    "refine_shape",
    "relax",
    "relaxed",
    "rendering",
    "rotation_6d_to_matrix",
    "rotation_angle_between",
    "set_num_threads",
    "silhouette",
    "soft",
    "sorting",
    "splatting",
    "suggest_scale",
    "tnorms",
    "topk",
    "transport",
]

# Where each name lives; a test compares this with the imports above.
_MODULES = {
    "gendr": (
        "distributions",
        "logic",
        "losses",
        "mesh",
        "optim",
        "photos",
        "primitives",
        "relaxed",
        "rendering",
        "soft",
        "sorting",
        "splatting",
        "tnorms",
        "topk",
        "transport",
    ),
    "gendr.rendering.instances": ("Instance", "instance", "instances"),
    "gendr.kernels.threads": ("set_num_threads",),
    "gendr.photos.fitting": (
        "FitResult",
        "FitSettings",
        "RemeshingAdam",
        "SmoothParametrization",
        "fit",
        "fit_colors",
        "fit_pose",
        "refine_cameras",
        "refine_shape",
    ),
    "gendr.mesh": (
        "Camera",
        "Lighting",
        "Mesh",
        "axis_angle_to_matrix",
        "look_at",
        "look_from",
        "rotation_6d_to_matrix",
        "rotation_angle_between",
    ),
    "gendr.relaxed": ("relax",),
    "gendr.rendering": ("Output", "Renderer", "silhouette"),
    "gendr.kernels.backends": ("backends",),
    "gendr.rendering.scale": ("geometric_schedule", "pixels_to_ndc", "suggest_scale"),
}
__getattr__, __dir__ = lazily(globals(), _MODULES)
