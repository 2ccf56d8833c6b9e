"""`[tool.tensorproof]` of pyproject.toml: the same settings as the command line, which wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorproof.errors import ConfigurationError

if TYPE_CHECKING:
    from tensorproof.assumptions import Domain

FAIL_ON = ("confirmed", "possible", "incomplete", "never")

_KEYS = {
    "ranges": dict,
    "dims": dict,
    "weights": str,
    "target": str,
    "precision": str,
    "phase": str,
    "inputs": dict,
    "effort": int,
    "tensors": str,
    "values": str,
    "select": list,
    "ignore": list,
    "fail-on": str,
    "baseline": str,
    "seed": int,
}


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
        expected = _KEYS.get(key)
        if expected is None:
            raise ConfigurationError(f"{where} has an unknown key {key!r}; known are {', '.join(_KEYS)}")
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
