"""Methods of arrays: the rule of the method's name in the array's library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorproof.shapes import applying, attributes
from tensorproof.shapes.problems import Place
from tensorproof.shapes.rule_table import RULES
from tensorproof.shapes.run import Run
from tensorproof.shapes.values import UNKNOWN, TensorMethod, Value


def call_method(run: Run, place: Place, method: TensorMethod, arguments: Sequence[Value], keywords: Mapping[str, Value]) -> Value:
    """`tensor.name(...)`."""
    name = f"{attributes.ARRAY_CLASSES[method.receiver.framework]}.{method.name}"
    if method.name.startswith("__"):
        # An operator, called by its name.
        name = f"{method.receiver.framework}.{method.name}"
    rule = RULES.get(name)
    if rule is None and method.name.endswith("_"):
        # In-place methods of PyTorch are named like their originals.
        rule = RULES.get(name.removesuffix("_"))
    if rule is None:
        run.statistics.unmodelled[name] += 1
        return UNKNOWN
    return applying.apply_rule(run, place, rule, name, (method.receiver, *arguments), keywords, name_place=method.place)
