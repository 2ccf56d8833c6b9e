"""The abstract domain: grids of cells with intervals and special values."""
