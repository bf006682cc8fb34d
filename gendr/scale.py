"""The scale of a renderer: what it should be, schedules, units. See `gendr.rendering.scale`."""

from gendr.rendering.scale import geometric_schedule, pixels_to_ndc, suggest_scale

__all__ = ["geometric_schedule", "pixels_to_ndc", "suggest_scale"]
