"""Descriptions of the programs, one module per family."""
