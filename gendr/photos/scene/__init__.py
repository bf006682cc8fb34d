"""Scenes: what overlapping photographs see, without masks."""
