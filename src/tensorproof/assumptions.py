"""Assumptions: what inputs, weights and dimensions may be. Every report states them; no verdict holds beyond them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tensorproof.errors import AssumptionError
from tensorproof.formats import FLOAT32, Array, Format
from tensorproof.graph import ABSENT, Model
from tensorproof.ranges.norms import Norm
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Range
from tensorproof.ranges.weights import extent

#: Undeclared numbers: wide enough that a naive exponential overflows and a naive softmax underflows in float32.
DEFAULT_REACH = 100.0
#: Undeclared symbolic dimensions: the leading axis (a batch) and any other.
DEFAULT_BATCH = 1
DEFAULT_SIZE = 16
#: A variable that counts (steps, examples) goes no further than this.
COUNTED = float(1 << 31)
#: At most this many combinations of dimension sizes are analysed; beyond, the report is incomplete and says so.
MAX_SIZE_COMBINATIONS = 64
#: An input of more elements than this is a mistake in a dimension, not a model.
MAX_INPUT_ELEMENTS = 1 << 40

DomainKind = Literal["box", "values", "one-hot", "simplex", "mask", "unit-norm", "channels"]
WeightMode = str


@dataclass(frozen=True, slots=True)
class Domain:
    """The legal values of one input.

    Beyond boxes: a finite set of values, one-hot rows, points of the simplex, 0/1 masks with at least one 1 per row, rows
    of unit norm, and one interval per channel. Rows run along `axis`.
    """

    kind: DomainKind
    low: float
    high: float
    values: tuple[float, ...] = ()
    axis: int = -1
    channels: tuple[tuple[float, float], ...] = ()
    source: str = "declared"

    def describe(self) -> str:
        bounds = f"{self.low:g}:{self.high:g}"
        match self.kind:
            case "values":
                return "{" + ",".join(f"{v:g}" for v in self.values) + "}"
            case "channels":
                return f"{len(self.channels)} channels within {bounds}"
            case "box":
                return bounds
            case _:
                return f"{self.kind} along axis {self.axis}"

    def to_json(self) -> dict[str, Any]:
        return {"range": [self.low, self.high], "domain": self.kind, "source": self.source}

    def range(self, shape: tuple[int, ...] | None, format: Format) -> Range:
        """The range of a tensor of this domain: its hull per cell, rounded inward into the format (no value is outside)."""
        low, high = (max(self.low, format.low), min(self.high, format.high))
        special = 0
        if format.is_float:
            special |= POSITIVE_INFINITY if self.high == math.inf else 0
            special |= NEGATIVE_INFINITY if self.low == -math.inf else 0
            special |= NAN if math.isnan(self.low) else 0
            rounded = format.round_up(np.array(low)), format.round_down(np.array(high))
            low, high = float(rounded[0]), float(rounded[1])
            if low > high:
                low = high = float(format.round_nearest(np.array(self.low)))
        if self.kind != "channels":
            whole = Range.uniform(shape, format, low, high, special)
            whole.norm = self._norm(shape, format)
            return whole
        axis = self.axis % len(shape) if shape else 0
        if not shape or shape[axis] != len(self.channels):
            raise AssumptionError(f"{len(self.channels)} channels do not fit axis {self.axis} of shape {shape}")
        whole = Range.uniform(shape, format, low, high).refine_fully(axis)
        return whole.replace(*self._of_channels(len(shape)), None)

    def ends(self, shape: tuple[int, ...], format: Format) -> tuple[Array, Array]:
        """The smallest and the largest number, one for all elements or one per channel; no farther than the format goes."""
        low, high = (
            self._of_channels(len(shape)) if self.kind == "channels" and shape else (np.array(self.low), np.array(self.high))
        )
        return np.maximum(low, format.low), np.minimum(high, format.high)

    def _of_channels(self, rank: int) -> tuple[Array, Array]:
        cells = tuple(len(self.channels) if i == self.axis % rank else 1 for i in range(rank))
        low, high = (ends.reshape(cells) for ends in np.array(self.channels, np.float64).T)
        return low, high

    def _norm(self, shape: tuple[int, ...] | None, format: Format) -> Norm | None:
        """The norm of rows that have one; elements are taken to be within two units of the last place of their exact values."""
        if self.kind not in ("unit-norm", "simplex", "one-hot") or not shape or not format.is_float:
            return None
        axis = self.axis % len(shape)
        one = Norm(axis, 1.0, math.inf if self.kind == "unit-norm" else 1.0)
        return one.scaled(1.0 + 4.0 * format.unit_roundoff).plus(format.smallest_subnormal, shape[axis])


@dataclass(frozen=True, slots=True)
class Declarations:
    """What the user declared, before it meets a model: ranges by name (`*` for all), dimension sizes, weights, samples."""

    domains: Mapping[str, Domain] = field(default_factory=dict[str, Domain])
    dimensions: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    weights: WeightMode = "fixed"
    samples: str | None = None


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Declarations resolved for one model: a domain per input, a range for each weight that is not fixed, sizes."""

    inputs: Mapping[int, Domain]
    shapes: Mapping[int, tuple[int, ...] | None]
    weights: Mapping[int, Domain]
    weight_mode: WeightMode
    sizes: Mapping[str, int]
    notes: tuple[str, ...] = ()

    def to_json(self, model: Model) -> dict[str, Any]:
        return {
            "inputs": {
                model.name_of(n): {**d.to_json(), "shape": self._shape_json(n), "text": d.describe()}
                for n, d in self.inputs.items()
            },
            "weights": self.weight_mode,
            "weight_ranges": {model.name_of(n): d.to_json() for n, d in self.weights.items()},
            "dimensions": dict(self.sizes),
            "notes": list(self.notes),
        }

    def _shape_json(self, number: int) -> list[int] | None:
        shape = self.shapes[number]
        return None if shape is None else list(shape)


# -- reading declarations ---------------------------------------------------------------------------------------------


def parse_domain(text: str, what: str) -> Domain:
    """`low:high`, `{a,b,c}`, or the name of a domain (one-hot, simplex, mask, unit-norm), with `@axis` where it has rows."""
    text = text.strip()
    name, _, axis_text = text.partition("@")
    if name in ("one-hot", "simplex", "mask", "unit-norm"):
        axis = _integer(axis_text, what) if axis_text else -1
        return Domain(name, -1.0 if name == "unit-norm" else 0.0, 1.0, axis=axis)  # type: ignore[arg-type]
    if text.startswith("{") and text.endswith("}"):
        values = tuple(_float(part, what) for part in text[1:-1].split(","))
        return Domain("values", min(values), max(values), values=values)
    low_text, colon, high_text = text.partition(":")
    if not colon:
        value = _float(text, what)
        return Domain("box", value, value)
    return _box(_float(low_text, what), _float(high_text, what), what)


def domain_from_json(value: Any, what: str) -> Domain:
    """A domain of a ranges file: [low, high], a text as on the command line, or an object with the same keys."""
    if isinstance(value, Domain):
        return value
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, str):
        return parse_domain(value, what)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Domain("box", float(value), float(value))
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(v, int | float | str) for v in value):
        return _box(_float(value[0], what), _float(value[1], what), what)
    if isinstance(value, dict):
        axis = int(value.get("axis", 1 if "channels" in value else -1))
        if "channels" in value:
            pairs = tuple((_float(p[0], what), _float(p[1], what)) for p in value["channels"] if len(p) == 2)
            if not pairs or len(pairs) != len(value["channels"]):
                raise AssumptionError(f"{what}: channels must be pairs [low, high]")
            return Domain("channels", min(p[0] for p in pairs), max(p[1] for p in pairs), axis=axis, channels=pairs)
        if value.get("values"):
            values = tuple(_float(v, what) for v in value["values"])
            return Domain("values", min(values), max(values), values=values)
        if "range" in value:
            return domain_from_json(value["range"], what)
        if "domain" in value:
            return parse_domain(f"{value['domain']}@{axis}", what)
    raise AssumptionError(f"{what}: {value!r} is not a range; write [low, high] or a domain")


def parse_range_option(option: str) -> tuple[str, Domain]:
    """`name=low:high`. The name ends at the last `=`: TensorFlow names hold colons, and some hold equal signs."""
    name, equals, text = option.rpartition("=")
    if not equals or not name:
        raise AssumptionError(f"--range {option!r}: write name=low:high")
    return name, parse_domain(text, f"--range {name}")


def parse_dimension_option(option: str) -> tuple[str, tuple[int, int]]:
    """`N=4` or `N=1:8`."""
    name, equals, text = option.rpartition("=")
    low_text, colon, high_text = text.partition(":")
    if not equals or not name:
        raise AssumptionError(f"--dim {option!r}: write NAME=SIZE or NAME=LOW:HIGH")
    low = _integer(low_text, f"--dim {name}")
    high = _integer(high_text, f"--dim {name}") if colon else low
    if low < 0 or low > high:
        raise AssumptionError(f"--dim {name}: {text} is not a range of sizes")
    return name, (low, high)


def read_ranges_file(path: str | Path) -> dict[str, Domain]:
    """A JSON object from names to ranges."""
    try:
        content = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise AssumptionError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise AssumptionError(f"{path}: not JSON ({error})") from None
    if not isinstance(content, dict):
        raise AssumptionError(f"{path}: must be an object from names to ranges")
    return {str(name): domain_from_json(value, f"{path}: {name}") for name, value in content.items()}


def read_samples(path: str | Path) -> dict[str, npt.NDArray[Any]]:
    """Arrays of an .npz file, read without pickle."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise AssumptionError(f"{path}: cannot be read ({error})") from None
    except Exception:  # numpy and zipfile raise many kinds for a file that is not an archive of plain arrays
        raise AssumptionError(f"{path}: not an .npz file of plain arrays") from None


def _float(text: Any, what: str) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        raise AssumptionError(f"{what}: {text!r} is not a number") from None
    if math.isnan(value):
        raise AssumptionError(f"{what}: an end of a range cannot be NaN")
    return value


def _integer(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise AssumptionError(f"{what}: {text!r} is not a whole number") from None


def _box(low: float, high: float, what: str) -> Domain:
    if low > high:
        raise AssumptionError(f"{what}: low {low:g} is above high {high:g}")
    return Domain("box", low, high)


# -- resolving for a model -------------------------------------------------------------------------------------------


def resolve(model: Model, declared: Declarations) -> tuple[list[Assumptions], tuple[str, ...]]:
    """The assumptions for each combination of dimension sizes, and remarks on sizes that are not analysed."""
    domains = dict(declared.domains)
    if declared.samples is not None:
        domains = {**_from_samples(model, read_samples(declared.samples)), **domains}
    _check_names(model, domains)
    _check_dimensions(model, declared.dimensions)
    inputs = {number: _input_domain(model, number, domains) for number in model.graph.inputs}
    weights = _weight_domains(model, declared.weights, domains)
    combinations, remarks = _size_combinations(model, declared.dimensions)
    results: list[Assumptions] = []
    for sizes in combinations:
        shapes = {number: _shape(model, number, sizes) for number in model.graph.inputs}
        for number, shape in shapes.items():
            if shape is not None and math.prod(shape) > MAX_INPUT_ELEMENTS:
                raise AssumptionError(f"input {model.name_of(number)!r} would have {math.prod(shape)} elements")
        results.append(Assumptions(inputs, shapes, weights, declared.weights, sizes))
    return results, tuple(remarks)


def _check_names(model: Model, domains: Mapping[str, Domain]) -> None:
    known = {model.name_of(n) for n in (*model.graph.inputs, *model.weights)}
    for name in domains:
        if name != "*" and name not in known:
            names = ", ".join(sorted(model.name_of(n) for n in model.graph.inputs)[:8])
            raise AssumptionError(f"no input or weight is named {name!r}; inputs are {names or 'none'}")


def symbolic_dimensions(model: Model) -> dict[str, int]:
    """The symbolic dimensions of the inputs with their default sizes; unnamed ones are called `input:axis`."""
    found: dict[str, int] = {}
    for number in model.graph.inputs:
        for axis, size in enumerate(model.values[number].shape or ()):
            if not isinstance(size, int):
                name = size or f"{model.name_of(number)}:{axis}"
                found.setdefault(name, model.default_sizes.get(name, DEFAULT_BATCH if axis == 0 else DEFAULT_SIZE))
    return found


def _check_dimensions(model: Model, declared: Mapping[str, tuple[int, int]]) -> None:
    known = symbolic_dimensions(model)
    for name in declared:
        if name not in known:
            raise AssumptionError(f"no dimension is named {name!r}; symbolic are {', '.join(known) or 'none'}")


def _size_combinations(model: Model, declared: Mapping[str, tuple[int, int]]) -> tuple[list[dict[str, int]], list[str]]:
    names = symbolic_dimensions(model)
    spans = {name: declared.get(name, (default, default)) for name, default in names.items()}
    count = math.prod(high - low + 1 for low, high in spans.values())
    if count <= MAX_SIZE_COMBINATIONS:
        axes: list[Sequence[int]] = [range(low, high + 1) for low, high in spans.values()]
        return [dict(zip(spans, sizes)) for sizes in product(*axes)], []
    ends = [sorted({low, high}) for low, high in spans.values()]
    remark = f"{count} combinations of dimension sizes are declared; only the ends of each range were analysed"
    return [dict(zip(spans, sizes)) for sizes in list(product(*ends))[:MAX_SIZE_COMBINATIONS]], [remark]


def _shape(model: Model, number: int, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    """The shape of an input with these sizes; None if the file does not even state the rank."""
    value = model.values[number]
    if value.shape is None:
        return None
    return tuple(size if isinstance(size, int) else sizes[size or f"{value.name}:{axis}"] for axis, size in enumerate(value.shape))


def _from_samples(model: Model, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Domain]:
    """The hull of sample data, per input."""
    inputs = {model.name_of(n) for n in model.graph.inputs}
    found: dict[str, Domain] = {}
    for name, array in arrays.items():
        if name not in inputs:
            raise AssumptionError(f"samples: no input is named {name!r}; inputs are {', '.join(sorted(inputs))}")
        if array.dtype.kind not in "fiub" or not array.size:
            raise AssumptionError(f"samples: {name!r} holds no numbers")
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise AssumptionError(f"samples: {name!r} holds NaN")
        found[name] = Domain("box", float(array.min()), float(array.max()), source="samples")
    return found


def _input_domain(model: Model, number: int, domains: Mapping[str, Domain]) -> Domain:
    value = model.values[number]
    format = value.format or FLOAT32
    found = domains.get(value.name)
    if found is not None:
        return found
    if "*" in domains and format.kind in ("float", "int"):
        return domains["*"]
    return _default_domain(model, number, format)


def _default_domain(model: Model, number: int, format: Format) -> Domain:
    if format.kind == "bool":
        return Domain("box", 0.0, 1.0, source="default")
    if format.kind in ("string", "complex"):
        return Domain("box", 0.0, 0.0, source="default")
    size = _indexed_size(model, number)
    if size is not None:
        return Domain("box", 0.0, float(max(size - 1, 0)), source="role: index")
    if format.bits <= 8:
        return Domain("box", format.low, format.high, source="default")
    low = 0.0 if format.low == 0.0 else -DEFAULT_REACH
    return Domain("box", low, DEFAULT_REACH, source="default")


def _indexed_size(model: Model, number: int) -> int | None:
    """The size of the constant axis that an integer input indexes (Gather and its like), through casts and reshapes."""
    value = model.values[number]
    if value.format is None or not value.format.is_integer:
        return None
    aliases = {number}
    sizes: list[int] = []
    for node in model.graph.nodes:
        if node.op in ("Cast", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Identity") and node.inputs[0] in aliases:
            aliases.add(node.outputs[0])
        elif node.op in ("Gather", "GatherElements") and len(node.inputs) == 2 and node.inputs[1] in aliases:
            table = model.constants.get(node.inputs[0])
            if table is not None and table.ndim:
                sizes.append(table.shape[int(node.attributes.get("axis", 0))])
    return min(sizes) if sizes else None


# -- weights ---------------------------------------------------------------------------------------------------------


def _weight_domains(model: Model, mode: WeightMode, domains: Mapping[str, Domain]) -> dict[int, Domain]:
    """A domain for each weight that is a range: those named in the declarations, and all of them in architecture mode.

    In the mode `init` a weight whose initialisation is known has the range of that. A weight that the file gives no value is a
    range in every mode.

    Only floating initialisers of more than one element count as weights there: exporters lift scalar constants of the
    program (an epsilon, a temperature) into initialisers, too.
    """
    found: dict[int, Domain] = {}
    variances = _variances(model)
    formula = weight_formula(mode)
    for number in sorted(model.weights):
        value = model.values[number]
        named = domains.get(value.name)
        if named is not None:
            found[number] = named
            continue
        if number in model.unvalued:
            found[number] = _without_value(model, number, formula, number in variances)
            continue
        array = model.constants[number]
        if formula is None or value.format is None or not value.format.is_float or array.size <= 1:
            continue
        ends = extent(array)
        if ends is None:
            continue
        low, high = formula(*ends)
        if mode == "init" and number in model.initial_ranges:
            low, high = model.initial_ranges[number]
        if number in variances:
            low, high = max(low, 0.0), max(high, 0.0)
        low, high = max(low, value.format.low), min(high, value.format.high)
        found[number] = Domain("box", low, high, source=f"weights {mode}")
    return found


def _without_value(
    model: Model, number: int, formula: Callable[[float, float], tuple[float, float]] | None, is_variance: bool
) -> Domain:
    """The range of a weight that has none but its initialiser's, as DEBAR takes it; an integer may have counted up from there."""
    format = model.values[number].format or FLOAT32
    ends = model.initial_ranges.get(number)
    source = "initialiser" if ends is not None else "no initialiser known"
    if not format.is_float:
        low = 0.0 if ends is None else ends[0]
        return Domain("box", low, min(format.high, low + COUNTED), source=source)
    low, high = (formula or _debar)(*(ends or (0.0, 0.0)))
    low, high = max(low, format.low), min(high, format.high)
    return Domain("box", max(low, 0.0) if is_variance else low, max(high, 0.0) if is_variance else high, source=source)


def weight_formula(mode: WeightMode) -> Callable[[float, float], tuple[float, float]] | None:
    """The range of a weight from the smallest and largest of its values in the file; None for `fixed`."""
    if mode == "fixed":
        return None
    if mode in _WEIGHT_FORMULAS:
        return _WEIGHT_FORMULAS[mode]
    domain = parse_domain(mode, "--weights")
    if domain.kind != "box":
        raise AssumptionError(f"--weights {mode!r}: write fixed, init, ranum, debar or low:high")
    return lambda low, high: (domain.low, domain.high)


def _ranum(low: float, high: float) -> tuple[float, float]:
    """RANUM: [min-d, max+d] with d = max-min; tensors that are nearly zero get [-10, 10]."""
    if max(abs(low), abs(high)) < 1e-5:
        return -10.0, 10.0
    spread = high - low
    return low - spread, high + spread


def _debar(low: float, high: float) -> tuple[float, float]:
    """DEBAR: the range of the initialiser; zeros get [-1, 1]."""
    return (-1.0, 1.0) if low == high == 0.0 else (low, high)


def _init(low: float, high: float) -> tuple[float, float]:
    """Ours: twice the largest initial magnitude, both signs; a constant tensor (a bias, a gain) moves by one."""
    if low == high:
        return low - 1.0, high + 1.0
    reach = 2.0 * max(abs(low), abs(high))
    return -reach, reach


_WEIGHT_FORMULAS = {"ranum": _ranum, "debar": _debar, "init": _init}


def _variances(model: Model) -> frozenset[int]:
    """Weights that are the variance of a BatchNormalization: never negative, whatever their name."""
    found: set[int] = set()
    for node in model.graph.walk():
        if node.op == "BatchNormalization" and len(node.inputs) >= 5 and node.inputs[4] != ABSENT:
            found.add(node.inputs[4])
    return frozenset(found)
