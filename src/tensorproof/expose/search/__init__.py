"""How values are moved towards failures, whatever the framework: suspects, their turns, steps, samples that are kept."""
