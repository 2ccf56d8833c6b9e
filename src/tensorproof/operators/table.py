"""The operator table: what an operator's block consists of, and how one call is evaluated.

A block is a function from ranges to ranges in exact arithmetic, decorated with `operator`, followed by its hazards:

    @operator("Sqrt", error=CORRECT)
    def sqrt(op: Call, x: Range) -> Range:
        '''Increasing on [0, inf); NaN below zero.'''
        return monotone(x.clamp(low=0.0), np.sqrt)

    @sqrt.hazard(SQRT_OF_NEGATIVE, gives=NAN)
    def _(op: Call, x: Range) -> Mask:
        return x.low < 0

The function assumes that no hazard fires (it clamps the operand as a repair would). The engine asks the hazards, rounds the
result into its format with the block's error, finds overflow, and adds the special values that a hazard gives. Everything
that iterates operators (dispatch, documentation, coverage, soundness tests) reads this one table.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, Array, Format
from tensorproof.ranges.abstraction import PRECISE, Abstraction
from tensorproof.ranges.containers import Abstract
from tensorproof.ranges.range import INFINITIES, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, SPECIALS, Range, align
from tensorproof.rules.invalid_operation_on_infinity import INVALID_ON_INFINITY
from tensorproof.rules.rule import Rule
from tensorproof.targets import IEEE, FunctionError, Target

if TYPE_CHECKING:
    from tensorproof.ranges.norms import Norm

Mask: TypeAlias = npt.NDArray[np.bool_] | bool
Block: TypeAlias = Callable[..., Any]
NormRule: TypeAlias = "Callable[..., Norm | None]"
#: Ends that a computed result keeps: numbers, or arrays over its elements' cells given as a range of the same shape.
Bound: TypeAlias = tuple[float, float] | Range

#: The operand number of a hazard that concerns the result itself (overflow).
RESULT = -1

#: What a hazard gives when the result is not a number at all but undefined: any value of the format.
UNDEFINED = 8


@dataclass(frozen=True, slots=True)
class Error:
    """A bound on |computed - exact| of the result: `ulps` units in the last place plus `absolute`.

    An error of half a unit means correct rounding (IEEE 754-2019, section 4.3), which is monotone: bounds are then rounded
    to nearest like the result itself.
    """

    ulps: float
    absolute: float = 0.0


#: The result is one of the operands' elements, or an exact integer or truth value: nothing is rounded.
EXACT = Error(0.0)
#: One correctly rounded operation.
CORRECT = Error(0.5)
#: Elementary functions of runtimes stay within this many units of the last place, unless the target says otherwise.
FAITHFUL = Error(4.0)


@dataclass(frozen=True, slots=True)
class Hazard:
    """One way in which a call can fail: the rule, the operand and the part of its range that is to blame."""

    rule: Rule
    operand: int
    low: float
    high: float
    gives: int
    operator: str


@dataclass(slots=True)
class HazardCondition:
    """A hazard as declared in an operator's block."""

    rule: Rule
    operand: int
    gives: int
    condition: Callable[..., Mask]


@dataclass(slots=True)
class Operator:
    """One operator: its names, its block and its hazards.

    `overflow` is the rule reported when the result leaves its format (None where it cannot). `codomain` are ends that no
    rounding error crosses. `coarse` and `top` are the reasons why the block is not tight, or knows nothing.
    """

    name: str
    domain: str
    block: Block
    error: Error
    overflow: Rule | None
    codomain: tuple[float, float] | None
    coarse: str | None
    top: str | None
    composed_of: tuple[Operator, ...]
    is_control: bool
    declared: tuple[Rule, ...]
    steered_by: tuple[int, ...] = ()
    hands_on: bool = False
    elementwise: bool = False
    hazards: list[HazardCondition] = field(default_factory=list[HazardCondition])
    norm_rule: NormRule | None = None

    def norm(self, rule: NormRule) -> NormRule:
        """Declare how norms pass: what the call, the result's range and the operands say about the norm of the result.

        Like a block, the rule speaks of exact arithmetic, and adds what the block's own steps may err. For operators with
        several results it holds for each of them that is floating.
        """
        self.norm_rule = rule
        return rule

    def hazard(self, rule: Rule, *, gives: int, operand: int = 0) -> Callable[[Callable[..., Mask]], Callable[..., Mask]]:
        """Declare a hazard: the function says for which cells of the operand it can fire."""

        def declare(condition: Callable[..., Mask]) -> Callable[..., Mask]:
            self.hazards.append(HazardCondition(rule, operand, gives, condition))
            return condition

        return declare

    @property
    def label(self) -> str:
        return f"{self.domain}::{self.name}" if self.domain else self.name

    @property
    def summary(self) -> str:
        return (self.block.__doc__ or "").strip().splitlines()[0]

    def rules(self) -> tuple[Rule, ...]:
        """All rules that a call of this operator can report, those of the operators that it is composed of included."""
        found = {hazard.rule.code: hazard.rule for hazard in self.hazards}
        found |= {rule.code: rule for rule in self.declared}
        if self.overflow is not None:
            found[self.overflow.code] = self.overflow
        for part in self.composed_of:
            found |= {rule.code: rule for rule in part.rules()}
        return tuple(found[code] for code in sorted(found))

    @property
    def is_checkable(self) -> bool:
        """Whether a call of this operator can fail at all."""
        return self.top is not None or bool(self.rules())


_TABLE: dict[tuple[str, str], Operator] = {}


def operator(
    name: str,
    *,
    error: Error = EXACT,
    overflow: Rule | None = None,
    domain: str = "",
    codomain: tuple[float, float] | None = None,
    coarse: str | None = None,
    top: str | None = None,
    composed_of: Sequence[Operator] = (),
    control: bool = False,
    hazards: Sequence[Rule] = (),
    steered_by: Sequence[int] = (),
    hands_on: bool = False,
    elementwise: bool = False,
) -> Callable[[Block], Operator]:
    """Enter an operator into the table.

    `hazards` declares rules that the block reports itself through `Call.report`. `steered_by` names the operands that
    decide shapes, indices or iterations: they, and all that they are made from, are analysed element by element.
    `hands_on` says that a range which the block gives back unchanged is the operand's own tensor, not only its bounds.
    `elementwise` says that each element of the result depends on one element of each operand, by NumPy's broadcasting.
    """

    def enter(block: Block) -> Operator:
        key = domain, name
        if key in _TABLE:
            raise ValueError(f"operator {domain}::{name} has two blocks")
        entry = Operator(
            name,
            domain,
            block,
            error,
            overflow,
            codomain,
            coarse,
            top,
            tuple(composed_of),
            control,
            tuple(hazards),
            tuple(steered_by),
            hands_on,
            elementwise,
        )
        _TABLE[key] = entry
        return entry

    return enter


@cache
def _load() -> None:
    package = importlib.import_module("tensorproof.operators")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def find_operator(domain: str, name: str) -> Operator | None:
    """The block of an operator, or None if the table has none."""
    _load()
    return _TABLE.get((domain, name))


def all_operators() -> Iterator[Operator]:
    """Every operator of the table, by domain and name."""
    _load()
    return iter(sorted(_TABLE.values(), key=lambda entry: (entry.domain, entry.name)))


class Call:
    """One application of an operator: attributes, version and target, and the hazards found on the way."""

    __slots__ = (
        "abstraction",
        "attributes",
        "bounds",
        "cells",
        "hazards",
        "impossible",
        "never",
        "operator",
        "output_formats",
        "outputs",
        "target",
        "version",
    )

    def __init__(
        self,
        operator: Operator,
        attributes: dict[str, Any],
        *,
        version: int = 10_000,
        target: Target = IEEE,
        outputs: int = 1,
        output_formats: Sequence[Format | None] = (),
        hazards: list[Hazard] | None = None,
        abstraction: Abstraction = PRECISE,
        cells: int | None = None,
        bounds: Sequence[Bound | None] = (),
    ) -> None:
        self.operator = operator
        self.attributes = attributes
        self.version = version
        self.target = target
        self.outputs = outputs
        self.output_formats = tuple(output_formats)
        self.hazards: list[Hazard] = [] if hazards is None else hazards
        self.abstraction = abstraction
        #: The most cells that a result may have.
        self.cells = abstraction.cells if cells is None else cells
        #: What is known of each result as computed, beside what the block finds out (idioms, earlier refinements).
        self.bounds = bounds
        #: Rules, by code, that cannot fire in this call, and special values that its first result never has.
        self.impossible: frozenset[str] = frozenset()
        self.never = 0

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute (numbers, text, lists of them, arrays, graphs), or the default."""
        return self.attributes.get(name, default)

    def integers(self, name: str, operand: Range | None = None) -> list[int] | None:
        """A list of integers that newer versions pass as an input and older ones as an attribute; None if left out.

        Raises NotAnalysed if it is an input whose values are not known.
        """
        if operand is not None:
            values = operand.integers()
            if values is None:
                raise NotAnalysed(f"{name} is not a constant")
            return [int(v) for v in values.reshape(-1)]
        attribute = self.attributes.get(name)
        if attribute is None:
            return None
        return [int(attribute)] if isinstance(attribute, int) else [int(v) for v in attribute]

    def accumulation(self, format: Format) -> Format:
        """The format in which this call's sums accumulate."""
        return self.target.accumulation(format)

    def report(self, rule: Rule, operand: int, value: Range, mask: Mask, *, gives: int) -> None:
        """Record a hazard on the cells of `value` that `mask` marks (nothing if it marks none)."""
        if rule.code in self.impossible or not np.any(mask):
            return
        low, high = value.low, value.high
        if isinstance(mask, np.ndarray) and mask.shape == low.shape:
            low, high = low[mask], high[mask]
        bounds = (float(low.min()), float(high.max())) if low.size else (np.inf, -np.inf)
        self.hazards.append(Hazard(rule, operand, *bounds, gives, self.operator.name))

    def apply(self, operator: Operator, *operands: Range | None, **attributes: Any) -> Any:
        """Evaluate another operator as a step of this one. Its hazards count as this call's; its results are rounded.

        Returns one range, or a tuple where the operator has several outputs.
        """
        inner = Call(operator, attributes, target=self.target, hazards=self.hazards, abstraction=self.abstraction)
        before = len(self.hazards)
        result = evaluate(inner, operands)
        for index in range(before, len(self.hazards)):
            hazard = self.hazards[index]
            if hazard.gives & INFINITIES:
                # What one step makes infinite, the steps after it may turn into any special value.
                self.hazards[index] = replace(hazard, gives=hazard.gives | SPECIALS)
        return result


def evaluate(call: Call, operands: Sequence[Abstract | None]) -> Any:
    """One call: hazards asked, block applied, results rounded into their formats.

    Returns what the block returns (one abstract value or a tuple), under the assumption that no hazard fires; the hazards
    that can fire are in `call.hazards`.
    """
    entry = call.operator
    for hazard in entry.hazards:
        if hazard.rule.code in call.impossible:
            continue
        mask = hazard.condition(call, *operands)
        if np.any(mask):
            index = hazard.operand
            operand = operands[index] if index < len(operands) else None
            if isinstance(operand, Range):
                call.report(hazard.rule, index, operand, mask, gives=hazard.gives)
            else:
                call.hazards.append(Hazard(hazard.rule, index, np.nan, np.nan, hazard.gives, entry.name))
    with np.errstate(all="ignore"):
        result = entry.block(call, *operands)
        if isinstance(result, tuple):
            known = (*call.bounds, *(None,) * (len(result) - len(call.bounds)))
            return tuple(_complete(call, part, operands, bound) for part, bound in zip(result, known))
        return _complete(call, result, operands, call.bounds[0] if call.bounds else None)


def _complete(call: Call, result: Any, operands: Sequence[Abstract | None], bound: Bound | None) -> Any:
    if not isinstance(result, Range):
        return result
    if not call.operator.hands_on and result.array is None and any(result is x for x in operands):
        result = result.bare()
    if call.operator.norm_rule is not None and call.abstraction.norms:
        result = _with_norm(call, result, operands)
    result = _finish(call, result, bound)
    if result.any_special & call.never:
        # A cell of nothing else stays as it is: only a hazard that was cut off can have left it.
        special = result.special & np.uint8(~call.never & 0xFF)
        special = np.where((result.low > result.high) & (special == 0), result.special, special)
        result = result.replace(result.low, result.high, special)
    if not result.any_special & NAN or any(isinstance(x, Range) and x.any_special & NAN for x in operands):
        return result
    # No operand was NaN: infinities that are legal met in a way that is not.
    made = (result.special & np.uint8(NAN)) != 0
    if not any(hazard.gives & (NAN | UNDEFINED) for hazard in call.hazards):
        call.report(INVALID_ON_INFINITY, RESULT, result, made, gives=NAN)
    return result.replace(result.low, result.high, result.special & np.uint8(INFINITIES))


def _with_norm(call: Call, result: Range, operands: Sequence[Abstract | None]) -> Range:
    """The result with the norm that its operator's rule finds, unless the block itself knew one."""
    rule = call.operator.norm_rule
    if result.norm is not None or result.array is not None or result.shape is None or not result.format.is_float:
        return result
    if rule is None or result.has_special or any(result is x for x in operands):
        return result
    norm = rule(call, result, *operands)
    if norm is not None and min(norm.bound, norm.total) < np.inf:
        result.norm = norm
    return result


def _finish(call: Call, x: Range, bound: Bound | None) -> Range:
    """Exact bounds rounded into their format, overflow reported and cut off, cells limited."""
    entry = call.operator
    if x.norm is not None or x.form is not None:
        return _finish_related(call, x, bound)
    if entry.error is EXACT and not call.target.flushes_results:
        if x.array is not None:
            return x
        return (x if bound is None else within(x, bound)).limit(call.cells)
    if not x.format.is_float:
        return _wrap(x if bound is None else within(x, bound)).limit(call.cells)
    low, high = _round_outward(call, x)
    if entry.codomain is not None:
        overshoot = call.target.function_errors.get(entry.name, _NO_EXTRA).overshoot
        ends = entry.codomain[0] - overshoot, entry.codomain[1] + overshoot
        low, high = np.clip(low, *ends), np.clip(high, *ends)
    if call.target.flushes_results:
        low, high = flushed(low, high, x.format)
    if x.has_special:
        empty = x.low > x.high
        low, high = np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
    result = x.replace(low, high, x.special if x.has_special else None)
    if bound is not None:
        result = within(result, bound)
    return _cut_overflow(call, result).limit(call.cells)


def _finish_related(call: Call, x: Range, bound: Bound | None) -> Range:
    """A result whose elements are related by a norm or an affine form: tightened by both, which are rounded with it."""
    norm, form = x.norm, x.form
    x = x.bare()
    if norm is not None:
        x = norm.tighten(x)
    if form is not None:
        x = form.tighten(x)
    result = _finish(call, x.bare(), bound)
    relative, absolute = _rounding_error(call, x.format)
    result = result.bare()
    result.norm = None if norm is None or result.has_special else norm.rounded(result, relative, absolute)
    result.form = None if form is None or result.has_special else form.rounded(result, relative, absolute)
    return result


def _rounding_error(call: Call, format: Format) -> tuple[float, float]:
    """A bound on |computed - exact| of each element, as relative * |element| + absolute."""
    error = call.operator.error
    if error is EXACT and not call.target.flushes_results:
        return 0.0, 0.0
    extra = call.target.function_errors.get(call.operator.name, _NO_EXTRA)
    lost = format.smallest_normal if call.target.flushes_results else format.smallest_subnormal
    ulps = error.ulps + extra.ulps
    return 2.0 * ulps * format.unit_roundoff * (1.0 + 2.0**-20), error.absolute + extra.absolute + (ulps + 1.0) * lost


def within(x: Range, bound: Bound) -> Range:
    """The values of a range that also lie in a bound; where a bound misses a cell altogether, the cell stays as it is."""
    if isinstance(bound, Range):
        if bound.shape != x.shape:
            return x
        aligned = align(x, bound)
        (low, least), (high, most) = aligned.lows, aligned.highs
        x = aligned.result(x.format, low, high, aligned.specials[0] if x.has_special else None)
    else:
        least, most = bound
    low, high = np.maximum(x.low, least), np.minimum(x.high, most)
    # Empty cells hold special values alone. A hull that the bound misses can only come from a hazard that was cut off.
    keep = (low > high) | (x.low > x.high)
    if keep.any():
        low, high = np.where(keep, x.low, low), np.where(keep, x.high, high)
    return x.replace(low, high, x.special if x.has_special else None)


def _round_outward(call: Call, x: Range) -> tuple[Array, Array]:
    fmt, target = x.format, call.target
    # NaN can only come from inf - inf or 0 * inf of bounds that left float64: nothing is known there.
    low = np.where(np.isnan(x.low), -np.inf, x.low)
    high = np.where(np.isnan(x.high), np.inf, x.high)
    error = call.operator.error
    extra = target.function_errors.get(call.operator.name, _NO_EXTRA)
    ulps, absolute = error.ulps + extra.ulps, error.absolute + extra.absolute
    if ulps == 0.5 and absolute == 0.0:
        if not (target.keeps_chains_wide and fmt.bits < 32):
            return fmt.round_nearest(low), fmt.round_nearest(high)
        ulps = 0.0
    if ulps or absolute:
        padded_low = low - (ulps * fmt.quantum(low) + absolute)
        padded_high = high + (ulps * fmt.quantum(high) + absolute)
        if absolute <= FLOAT32.smallest_normal:
            # An error in units of the last place is relative, and underflow gives zero: no result is carried across it.
            padded_low = np.where(low >= 0, np.maximum(padded_low, 0.0), padded_low)
            padded_high = np.where(high <= 0, np.minimum(padded_high, 0.0), padded_high)
        low, high = padded_low, padded_high
    return fmt.round_down(low), fmt.round_up(high)


_NO_EXTRA = FunctionError()


def flushed(low: Array, high: Array, fmt: Format) -> tuple[Array, Array]:
    """Bounds of values that become zero, or may, where they lie below the smallest normal number."""
    low = np.where((low > 0) & (low < fmt.smallest_normal), 0.0, low)
    high = np.where((high < 0) & (high > -fmt.smallest_normal), 0.0, high)
    return low, high


def _wrap(x: Range) -> Range:
    """Integer results that leave their format wrap around: any value of the format."""
    # The largest 64-bit integers are no float64 numbers: a bound at the number above them may stand for one that wraps.
    above = x.high >= x.format.high if x.format.bits == 64 else x.high > x.format.high
    outside = (x.low < x.format.low) | above
    if not outside.any():
        return x
    return x.replace(np.where(outside, x.format.low, x.low), np.where(outside, x.format.high, x.high), x.special)


def _cut_overflow(call: Call, x: Range) -> Range:
    fmt = x.format
    nonempty = x.low <= x.high
    above, below = (x.high > fmt.high) & nonempty, (x.low < fmt.low) & nonempty
    if not (above.any() or below.any()):
        return x
    rule = call.operator.overflow
    gives = NAN
    if fmt.has_infinity:
        gives = (POSITIVE_INFINITY if above.any() else 0) | (NEGATIVE_INFINITY if below.any() else 0)
    # A division by zero overflows, too: one defect, one report, as long as it says all that can come out.
    reported = 0
    for hazard in call.hazards:
        reported |= SPECIALS if hazard.gives & UNDEFINED else hazard.gives
    if rule is not None and gives & ~reported:
        call.report(rule, RESULT, x, above | below, gives=gives)
    return x.clamp(fmt.low, fmt.high)
