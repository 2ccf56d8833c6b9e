"""Idioms: what the structure of a graph proves about single nodes, where ranges alone cannot.

An idiom recognises a node together with what it is made from (x - max(x), p / sum(p), a normalisation written out) and
claims a bound on its result *as computed*, with a proof in its docstring. Each file holds one family; the claims of a
model are found once (`tensorproof.idioms.claims`) and bound the results of their nodes in every pass.
"""
