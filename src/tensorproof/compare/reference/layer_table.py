"""The table of reference layers: what each computes, which weights it has, how exactly a framework can be expected to follow.

`@layer(...)` puts a function into it; everything else here and in the other modules of the package reads it. Parameters that a
layer does not declare raise `NoReference`, unless they cannot change a result (`_HAS_NO_EFFECT`): nothing is ignored silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias, cast

from tensorproof.compare.drawing import Array

Shape: TypeAlias = tuple[int, ...]
Outcome: TypeAlias = "Array | tuple[Array, ...]"
#: A chance to change an array on its way, by name.
Disturb: TypeAlias = Callable[[str, Array], Array]

#: A parameter without a default.
REQUIRED: Any = object()

#: How weights are made, kept in bounds and named, and by which code path the same is computed: none of it changes a result.
_HAS_NO_EFFECT = frozenset({"name", "dtype", "trainable", "autocast", "seed", "unroll", "use_cudnn", "unit_forget_bias"})
_SUFFIXES_WITHOUT_EFFECT = ("_initializer", "_regularizer", "_constraint")

#: Kinds that draw random numbers and are not in the table: Keras' augmentation of images, ONNX' `Bernoulli` and `Multinomial`.
_RANDOM_WITHOUT_REFERENCE = frozenset({"AugMix", "CutMix", "MixUp", "RandAugment", "Bernoulli", "Multinomial"})


class NoReference(Exception):
    """There is no reference for a layer as it is used here; `reason` says what stands against it."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind
        self.reason = reason


class Accuracy(StrEnum):
    """How the error of a correct implementation grows; `accuracy` gives the figures."""

    #: Data is moved or selected: the result is exact.
    EXACT = "exact"
    #: A few additions and multiplications per element.
    ROUNDED = "rounded"
    #: Exponentials, roots, quotients.
    FUNCTION = "function"
    #: Sums of products, in any order.
    SUM = "sum"
    #: Means and variances, which cancel.
    NORMALISED = "normalised"
    #: Sums and functions that feed on their own results.
    RECURRENT = "recurrent"


@dataclass(frozen=True)
class Weight:
    """A weight of a layer, by the name that Keras gives it; `draw_weight` draws by name and shape."""

    name: str
    shape: Shape


@dataclass(frozen=True)
class Parameters:
    """Constructor arguments with defaults filled in."""

    kind: str
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def is_channels_first(self) -> bool:
        """Whether axis 1 is the channels'; Keras' default is that the last one is."""
        given = self.values["data_format"]
        if given not in (None, "channels_last", "channels_first"):
            raise NoReference(self.kind, f"data_format={given!r}")
        return given == "channels_first"

    def sizes(self, name: str, rank: int) -> Shape:
        """A number for every spatial axis, given as one number or one for each."""
        value = self.values[name]
        if isinstance(value, int):
            return (value,) * rank
        numbers = tuple(value)
        if len(numbers) != rank or not all(isinstance(entry, int) for entry in numbers):
            raise NoReference(self.kind, f"{name}={value!r}")
        return numbers

    def refuse(self, name: str, allowed: Sequence[Any]) -> None:
        """`NoReference` unless a parameter has one of these values."""
        if self.values[name] not in allowed:
            raise NoReference(self.kind, f"{name}={self.values[name]!r}")


@dataclass(frozen=True)
class Call:
    """A layer at work. `masks` are those that go with each input: False where a step is to be left out.

    `attention_mask` says for every pair of steps whether the one may look at the other.
    """

    inputs: list[Array]
    parameters: Parameters
    weights: list[Array] = field(default_factory=list["Array"])
    masks: list[Array | None] = field(default_factory=list["Array | None"])
    is_training: bool = False
    attention_mask: Array | None = None
    disturb: Disturb | None = None

    def rounded(self, name: str, array: Array) -> Array:
        """A value inside the layer that every implementation has to round; `disturb` moves it as rounding would."""
        return array if self.disturb is None else self.disturb(name, array)

    @property
    def kind(self) -> str:
        return self.parameters.kind

    @property
    def only(self) -> Array:
        """The input of a layer that has one."""
        if len(self.inputs) != 1:
            raise NoReference(self.kind, f"{len(self.inputs)} inputs")
        return self.inputs[0]

    @property
    def mask(self) -> Array | None:
        """The first input's mask."""
        return self.masks[0] if self.masks else None


#: What becomes of the first input's mask: it is passed on, dropped, or computed.
Masking: TypeAlias = 'Literal["keep", "drop"] | Callable[[Call], Array | None]'
WeightsRule: TypeAlias = Callable[[list[Shape], Parameters], list[Weight]]


@dataclass(frozen=True)
class LayerReference:
    """A row of the table."""

    kind: str
    compute: Callable[[Call], Outcome]
    parameters: Mapping[str, Any]
    weights: WeightsRule
    #: By the parameters, where they decide.
    accuracy: Accuracy | Callable[[Parameters], Accuracy]
    masking: Masking
    is_random: bool


_TABLE: dict[str, LayerReference] = {}


def _no_weights(_shapes: list[Shape], _parameters: Parameters) -> list[Weight]:
    return []


def layer(
    *kinds: str,
    accuracy: Accuracy | Callable[[Parameters], Accuracy],
    parameters: Mapping[str, Any] | None = None,
    weights: WeightsRule = _no_weights,
    masking: Masking = "drop",
    is_random: bool = False,
) -> Callable[[Callable[[Call], Outcome]], Callable[[Call], Outcome]]:
    """Register a function as the reference of one or several kinds of layer, with its parameters' defaults."""

    def register(compute: Callable[[Call], Outcome]) -> Callable[[Call], Outcome]:
        for kind in kinds:
            if kind in _TABLE:
                raise ValueError(f"{kind} stands in the table already")
            _TABLE[kind] = LayerReference(kind, compute, dict(parameters or {}), weights, accuracy, masking, is_random)
        return compute

    return register


def known_kinds() -> Iterator[str]:
    """All kinds of layer in the table."""
    return iter(_TABLE)


def reference_of(kind: str) -> LayerReference:
    """A row of the table."""
    if kind not in _TABLE:
        raise NoReference(kind, "not in the table")
    return _TABLE[kind]


def parameters_of(kind: str, given: Mapping[str, Any]) -> Parameters:
    """The parameters of a layer, with defaults."""
    declared = reference_of(kind).parameters
    for name in given:
        if name not in declared and name not in _HAS_NO_EFFECT and not name.endswith(_SUFFIXES_WITHOUT_EFFECT):
            raise NoReference(kind, f"parameter {name}")
    values = {name: given.get(name, default) for name, default in declared.items()}
    missing = [name for name, value in values.items() if value is REQUIRED]
    if missing:
        raise NoReference(kind, f"no value for {', '.join(missing)}")
    return Parameters(kind, values)


def weights_of(kind: str, shapes: list[Shape], given: Mapping[str, Any]) -> list[Weight]:
    """The weights of a layer for inputs of these shapes, in Keras' order."""
    return reference_of(kind).weights(shapes, parameters_of(kind, given))


def nested_layer(owner: str, description: Any) -> tuple[str, Mapping[str, Any]]:
    """Kind and parameters of a layer inside a parameter, written `{"kind": ..., "parameters": {...}}`."""
    if isinstance(description, Mapping):
        entries = cast("Mapping[str, Any]", description)
        if "kind" in entries and not set(entries) - {"kind", "parameters", "name"}:
            return str(entries["kind"]), cast("Mapping[str, Any]", entries.get("parameters", {}))
    raise NoReference(owner, f"inner layer {description!r}")


def compute(
    kind: str,
    inputs: list[Array],
    given: Mapping[str, Any],
    weights: list[Array],
    masks: list[Array | None] | None = None,
    *,
    is_training: bool = False,
    attention_mask: Array | None = None,
    disturb: Disturb | None = None,
) -> tuple[tuple[Array, ...], Array | None]:
    """Results of one layer and the mask that goes with the first of them."""
    row = reference_of(kind)
    call = Call(inputs, parameters_of(kind, given), weights, masks or [None] * len(inputs), is_training, attention_mask, disturb)
    if is_training and is_random(kind, given):
        raise NoReference(kind, "random in training")
    outcome = row.compute(call)
    if row.masking == "keep":
        mask = call.mask
    elif row.masking == "drop":
        mask = None
    else:
        mask = row.masking(call)
    return outcome if isinstance(outcome, tuple) else (outcome,), mask


def is_random(kind: str, parameters: Mapping[str, Any] | None = None) -> bool:
    """Whether a layer draws random numbers in training, so that values cannot be compared; by its parameters too, if given."""
    if kind.startswith("Random") or kind in _RANDOM_WITHOUT_REFERENCE:
        return True
    if kind in _TABLE and _TABLE[kind].is_random:
        given = parameters or {}
        return any(bool(given.get(name)) for name in ("rate", "stddev")) if parameters is not None else True
    for name, value in (parameters or {}).items():
        if name in ("dropout", "recurrent_dropout") and value:
            return True
        for inner in value if isinstance(value, list | tuple) else [value]:
            entries = cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else {}
            if "kind" in entries and is_random(str(entries["kind"]), entries.get("parameters", {})):
                return True
    return False
