"""Layers in float64 NumPy."""
