"""Layers and operators that tests are made of."""
