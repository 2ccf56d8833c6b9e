"""Models."""
SEEDS: list = []
