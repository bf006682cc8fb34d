"""Putting camera poses right that are slightly off."""
