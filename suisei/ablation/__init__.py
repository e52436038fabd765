"""Ablations: the same training without one part at a time."""
