"""`[tool.tensorproof]` of pyproject.toml: the same settings as the command line, which wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorproof.errors import ConfigurationError

if TYPE_CHECKING:
    from tensorproof.assumptions import Domain

FAIL_ON = ("confirmed", "possible", "incomplete", "never")


class Setting(NamedTuple):
    """A key of the table: the type of its value, its meaning in Markdown, as the reference has it, and a value to begin with."""

    kind: type
    meaning: str
    example: str


#: Every key. The reference and what `tensorproof init` writes are made of this.
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        "ranges": Setting(
            dict,
            'What inputs (and weights) may be, by name: `[low, high]`, a domain such as `"one-hot"`, or an object.',
            '{ "*" = [-100, 100] }',
        ),
        "dims": Setting(dict, "Sizes of symbolic dimensions: a number, or `[low, high]` for every size between.", "{ N = 1 }"),
        "weights": Setting(str, "What weights may be: `fixed`, `init`, `ranum`, `debar` or `LOW:HIGH`.", '"fixed"'),
        "target": Setting(str, "The runtime whose arithmetic is assumed: one of the [targets](targets.md).", '"onnxruntime-cpu"'),
        "precision": Setting(str, "The [format](formats.md) that the whole model is converted into first.", '"float16"'),
        "phase": Setting(str, "`inference`, or `training`: gradients, too.", '"inference"'),
        "inputs": Setting(
            dict, 'Inputs of programs: `"float32[N,3,32,32] in [0,1]"`, by name.', '{ x = "float32[N,3,32,32] in [0,1]" }'
        ),
        "effort": Setting(int, "0 to 3: how far to refine what is not proven at once.", "1"),
        "tensors": Setting(str, "Cells of the first pass: `smash`, `partition` or `expand`.", '"partition"'),
        "values": Setting(str, "Values of the first pass: `interval` or `affine`.", '"interval"'),
        "select": Setting(list, "Only these rules: codes, or their beginnings.", '["NUM1", "NUM2"]'),
        "ignore": Setting(
            list,
            "Not these rules; `NUM101[/decoder/*]` ignores by node, `SHP201[legacy/*]` by file.",
            '["NUM302", "NUM101[/decoder/*]"]',
        ),
        "fail-on": Setting(str, "What makes the exit code 1: `confirmed`, `possible`, `incomplete` or `never`.", '"confirmed"'),
        "baseline": Setting(str, "The file of known findings, which are not reported again.", '"tensorproof-baseline.json"'),
        "seed": Setting(int, "The seed of samples and searches.", "0"),
    }
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings of a project. `ignore` may name nodes: `NUM101[/decoder/*]`."""

    ranges: Mapping[str, Domain] = field(default_factory=dict[str, "Domain"])
    dims: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    weights: str | None = None
    target: str | None = None
    precision: str | None = None
    phase: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    effort: int | None = None
    tensors: str | None = None
    values: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str | None = None
    baseline: str | None = None
    seed: int | None = None


def find_configuration(start: Path) -> Configuration:
    """The settings of the nearest pyproject.toml at or above a folder that has any."""
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            found = read_configuration(path)
            if found is not None:
                return found
    return Configuration()


def read_configuration(path: Path) -> Configuration | None:
    """The settings of one file; None if it has none."""
    import tomllib  # a command without a file to read does not need it

    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: not TOML ({error})") from None
    table = content.get("tool", {}).get("tensorproof")
    if table is None:
        return None
    if not isinstance(table, dict):
        raise ConfigurationError(f"{path}: [tool.tensorproof] must be a table")
    return _from_table(table, path)


def _from_table(table: Mapping[str, Any], path: Path) -> Configuration:
    where = f"{path}: [tool.tensorproof]"
    for key, value in table.items():
        if key not in SETTINGS:
            raise ConfigurationError(f"{where} has an unknown key {key!r}; known are {', '.join(SETTINGS)}")
        expected = SETTINGS[key].kind
        if not isinstance(value, expected):
            raise ConfigurationError(f"{where} {key} must be a {expected.__name__}")
    fail_on = table.get("fail-on")
    if fail_on is not None and fail_on not in FAIL_ON:
        raise ConfigurationError(f"{where} fail-on must be one of {', '.join(FAIL_ON)}")
    return Configuration(
        ranges=_ranges(table.get("ranges", {}), where),
        dims={str(k): _dimension(v, f"{where} dims.{k}") for k, v in table.get("dims", {}).items()},
        weights=table.get("weights"),
        target=table.get("target"),
        precision=table.get("precision"),
        phase=table.get("phase"),
        inputs={str(k): str(v) for k, v in table.get("inputs", {}).items()},
        effort=table.get("effort"),
        tensors=table.get("tensors"),
        values=table.get("values"),
        select=tuple(map(str, table.get("select", ()))),
        ignore=tuple(map(str, table.get("ignore", ()))),
        fail_on=fail_on,
        baseline=table.get("baseline"),
        seed=table.get("seed"),
    )


def _ranges(table: Mapping[str, Any], where: str) -> dict[str, Domain]:
    if not table:
        return {}
    # NumPy comes with it: a project without ranges does not pay for it.
    from tensorproof.assumptions import domain_from_json

    return {str(name): domain_from_json(value, f"{where} ranges.{name}") for name, value in table.items()}


def _dimension(value: Any, what: str) -> tuple[int, int]:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value, value
    if isinstance(value, list) and len(value) == 2 and all(isinstance(v, int) for v in value):
        low, high = value
        if 0 <= low <= high:
            return low, high
    raise ConfigurationError(f"{what} must be a size or [low, high]")
