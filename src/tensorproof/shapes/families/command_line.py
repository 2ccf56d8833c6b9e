"""Arguments of the command line: their defaults are taken."""

from __future__ import annotations

from tensorproof.shapes.families.modules import write
from tensorproof.shapes.rule_table import CLASSES, Call, native_class
from tensorproof.shapes.sizes import unknown
from tensorproof.shapes.values import UNKNOWN, Builtin, DictValue, ListValue, NativeObject, Unknown, Value

Options = dict[str, Value]


@native_class("argparse.ArgumentParser", "configargparse.ArgumentParser", "configargparse.ArgParser")
class ArgumentParser:
    """`argparse`: `parse_args` gives an object with the defaults of all arguments."""

    options: Options
    known = DictValue({})

    def setup(self, call: Call) -> Value:
        write(call, known=DictValue({}))
        return None

    def _add(self, call: Call, **values: Value) -> None:
        call.run.trail.write(self.known, "entries", {**(self.known.entries or {}), **values})

    def add_argument(self, call: Call, *names: Value, **options: Value) -> Value:
        chosen = [name for name in names if isinstance(name, str)]
        if len(chosen) == len(names) and chosen:
            self._add(call, **{_destination(chosen, options.get("dest")): _default(options)})
        return UNKNOWN

    def set_defaults(self, call: Call, **values: Value) -> Value:
        self._add(call, **values)
        return None

    def add_argument_group(self, call: Call, *arguments: Value, **options: Value) -> Value:
        return call.receiver

    add_mutually_exclusive_group = add_argument_group

    def parse_args(self, call: Call, args: Value = None, namespace: Value = None) -> Value:
        found = NativeObject(CLASSES["argparse.Namespace"], call.place)
        found.slots.update({str(name): value for name, value in (self.known.entries or {}).items()})
        return found

    def parse_known_args(self, call: Call, args: Value = None, namespace: Value = None) -> Value:
        return (self.parse_args(call), ListValue(None))

    def print_help(self, call: Call, file: Value = None) -> Value:
        return None


def _destination(names: list[str], given: Value) -> str:
    """The attribute: the first long name, with underscores."""
    if isinstance(given, str):
        return given
    long_names = [name for name in names if name.startswith("--")]
    return (long_names or names)[0].lstrip("-").replace("-", "_")


def _default(options: Options) -> Value:
    action = options.get("action", "store")
    if action in ("store_true", "store_false"):
        return options.get("default", action == "store_false")
    if "default" not in options:
        is_needed = options.get("required") is True or ("dest" not in options and "nargs" not in options)
        return _of_type(options.get("type"), UNKNOWN) if is_needed else UNKNOWN
    default = options["default"]
    return _of_type(options.get("type"), default) if isinstance(default, str | Unknown) else default


def _of_type(kind: Value, value: Value) -> Value:
    """A text converted as `type` says; something unknown of that type if there is no text."""
    if not isinstance(kind, Builtin) or kind.name not in ("int", "float", "str"):
        return value if kind is None else UNKNOWN
    if isinstance(value, str):
        try:
            return int(value) if kind.name == "int" else float(value) if kind.name == "float" else value
        except ValueError:
            return UNKNOWN
    return unknown(float("-inf")) if kind.name == "int" else UNKNOWN
