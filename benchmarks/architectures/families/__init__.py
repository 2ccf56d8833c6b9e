"""One module per kind of architecture; each has its `family`."""
