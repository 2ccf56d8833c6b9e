"""Training steps of PyTorch programs: what the backward pass adds to a check (`--phase training`).

`backward` looks at the graph of the whole step as torch differentiates it, `low_precision` runs steps in 16-bit formats.
"""
