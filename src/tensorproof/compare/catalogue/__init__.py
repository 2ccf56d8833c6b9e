"""Layers and operators that tests are made of.

parameters.py      what may stand for an argument, and what may not
layer_kind.py      one kind of layer: parameters, input shapes, the shape of the result
keras_*.py         the kinds of Keras by family
onnx_*.py          the kinds of ONNX by family
table.py           all kinds by name
covering.py        few sets of parameters in which every pair of values stands
singles.py         networks of one layer, legal and illegal
networks.py        random networks whose shapes fit
tracing.py         shapes of a whole network
mutating.py        valid changes of a network
plan.py            the sequence of all tests for a seed
coverage.py        what a sequence of tests has covered
digits.py, training.py, seed_networks.py   trained networks that mutations start from
"""

from tensorproof.compare.catalogue.coverage import Coverage
from tensorproof.compare.catalogue.layer_kind import LayerKind
from tensorproof.compare.catalogue.parameters import Parameter
from tensorproof.compare.catalogue.plan import Plan, PlanOptions
from tensorproof.compare.catalogue.seed_networks import SeedNetwork, seed_networks
from tensorproof.compare.catalogue.table import kinds
from tensorproof.compare.catalogue.tracing import shapes_of

__all__ = ["Coverage", "LayerKind", "Parameter", "Plan", "PlanOptions", "SeedNetwork", "kinds", "seed_networks", "shapes_of"]
