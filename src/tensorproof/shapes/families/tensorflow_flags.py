"""Options of the command line, as TensorFlow 1 and absl declare them, and the start of `main`."""

from __future__ import annotations

from tensorproof.shapes.rule_table import Call, shape_rule
from tensorproof.shapes.values import UNKNOWN, Value

_OPTIONS = ("string", "integer", "float", "bool", "boolean", "enum", "list", "multi_integer")


@shape_rule(*(f"{place}.DEFINE_{kind}" for place in ("tf.app.flags", "tf.flags", "absl.flags") for kind in _OPTIONS))
def define_option(call: Call, name: str, default: Value, *help: Value, **options: Value) -> Value:
    """An option of the command line: its default is what the analysis takes."""
    known = call.run.graph.options
    known[name] = default if name not in known else call.run.join(known[name], default)
    return UNKNOWN


@shape_rule("tf.app.run", "absl.app.run")
def run_program(call: Call, main: Value = None, argv: Value = None, **options: Value) -> Value:
    """Calls `main` of the program, and never returns."""
    module = call.run.modules.get("__main__")
    function = main if main is not None else module.frame.slots.get("main", UNKNOWN) if module is not None else UNKNOWN
    return call.run.call_at(call.place, function, (UNKNOWN,))
