"""Refinement on demand: what still alarms after the first pass is looked at again, on its backward cone alone.

Steps run from cheap to dear and stop as soon as nothing alarms any more (`tensorproof.refine.driver`). A step proves that a
hazard cannot fire, or bounds values more tightly; it never adds a finding. What each step may cost is counted in evaluations
of nodes, so that the result depends on the model and the options alone, never on the speed of the machine.
"""
