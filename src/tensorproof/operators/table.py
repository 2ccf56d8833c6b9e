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

Hazards of the backward pass stand beside them. They see the result as well, and give no special value:

    @sqrt.backward(INFINITE_AT_ZERO)
    def _(op: Call, result: Range, x: Range) -> Mask:
        return x.contains(0.0)
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.formats import Format
from tensorproof.ranges.abstraction import PRECISE, Abstraction
from tensorproof.ranges.containers import Abstract
from tensorproof.ranges.range import CELL_BUDGET, INFINITIES, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, SPECIALS, Range, align
from tensorproof.ranges.rounding import Rounding, has_subnormal
from tensorproof.ranges.silence import is_silent, silence
from tensorproof.rules.infinite_derivative_at_zero import INFINITE_AT_ZERO
from tensorproof.rules.invalid_operation_on_infinity import INVALID_ON_INFINITY
from tensorproof.rules.rule import Rule
from tensorproof.targets import IEEE, Target

if TYPE_CHECKING:
    from tensorproof.frontends.calls import Adapter, OperatorCall
    from tensorproof.ranges.affine import Form
    from tensorproof.ranges.differentiable import Flowing
    from tensorproof.ranges.norms import Norm

#: The frameworks that spell operators in their own way.
Dialect = Literal["aten", "tensorflow", "jax"]
Mask: TypeAlias = npt.NDArray[np.bool_] | bool
Block: TypeAlias = Callable[..., Any]
WeightAxes: TypeAlias = Callable[[dict[str, Any], int, int], tuple[int, ...] | None]
NormRule: TypeAlias = "Callable[..., Norm | None]"
Meaning: TypeAlias = Callable[..., Any]
IntervalRule: TypeAlias = Callable[..., Range | None]
FormRule: TypeAlias = "Callable[..., Form | tuple[Form | None, ...] | None]"
#: Ends that a computed result keeps: numbers, or arrays over its elements' cells given as a range of the same shape.
Bound: TypeAlias = tuple[float, float] | Range

#: Cells are compared with each other while they are so few that it costs little.
_COMPARED_CELLS = 64

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
class BackwardHazard:
    """A derivative that can be infinite or NaN, as declared in an operator's block: by operand `by`, seen at `operand`."""

    rule: Rule
    operand: int
    by: int
    condition: Callable[..., Mask]


@dataclass(slots=True)
class Operator:
    """One operator: its names, its block and its hazards.

    `overflow` is the rule reported when the result leaves its format (None where it cannot). `codomain` are ends that no
    rounding error crosses. `coarse` and `top` are the reasons why the block is not tight, or knows nothing.
    `backward_hazards` and `spoils` are what `backward` and `spoils_zero` declare.
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
    backward_hazards: list[BackwardHazard] = field(default_factory=list[BackwardHazard])
    spoils: Callable[..., Mask] | None = None
    norm_rule: NormRule | None = None
    form_rule: FormRule | None = None
    weight_axes: WeightAxes | None = None
    interval_rule: IntervalRule | None = None
    concrete: Meaning | None = None
    _checkable: bool | None = None
    _roundings: dict[str, Rounding] = field(default_factory=dict[str, Rounding])

    def norm(self, rule: NormRule) -> NormRule:
        """Declare how norms pass: what the call, the result's range and the operands say about the norm of the result.

        Like a block, the rule speaks of exact arithmetic, and adds what the block's own steps may err. For operators with
        several results it holds for each of them that is floating.
        """
        self.norm_rule = rule
        return rule

    def affine(self, rule: FormRule) -> FormRule:
        """Declare how affine forms pass: the form of the result, from the call, the result's range and the operands.

        Like a block, the rule speaks of exact arithmetic, and adds what the block's own steps may err. For operators with
        several results it gets all of them, and gives as many forms.
        """
        self.form_rule = rule
        return rule

    def interval(self, rule: IntervalRule) -> IntervalRule:
        """Declare the block once more for operands that are one interval each, in plain numbers.

        The rule gives what the block gives, or None wherever the block and its hazards have to be asked.
        """
        self.interval_rule = rule
        return rule

    def meaning(self, function: Meaning) -> Meaning:
        """Declare what a call computes, on torch tensors (`tensorproof.execute.meaning`)."""
        self.concrete = function
        return function

    def hazard(self, rule: Rule, *, gives: int, operand: int = 0) -> Callable[[Callable[..., Mask]], Callable[..., Mask]]:
        """Declare a hazard: the function says for which cells of the operand it can fire."""

        def declare(condition: Callable[..., Mask]) -> Callable[..., Mask]:
            self.hazards.append(HazardCondition(rule, operand, gives, condition))
            self._checkable = None
            return condition

        return declare

    def backward(
        self, rule: Rule, *, operand: int = 0, by: int | None = None
    ) -> Callable[[Callable[..., Mask]], Callable[..., Mask]]:
        """Declare a hazard of the backward pass: where the derivative by an operand (`by`) is infinite or NaN.

        The function gets the call, the result as computed and the operands, and says for which cells of `operand` eager
        PyTorch's formula for the derivative leaves the format although the result is finite. Such a hazard gives no special
        value: it is asked in training only (`report_derivatives`).
        """

        def declare(condition: Callable[..., Mask]) -> Callable[..., Mask]:
            self.backward_hazards.append(BackwardHazard(rule, operand, operand if by is None else by, condition))
            return condition

        return declare

    def spoils_zero(self, condition: Callable[..., Mask]) -> Callable[..., Mask]:
        """Declare where a failing call turns a gradient of zero into NaN (0 times an infinite or undefined derivative).

        The function gets the call and the operands. Without a declaration every failure does so, overflow of operators that are
        linear in each operand aside: there eager PyTorch multiplies zero with the other operand, which is finite.
        """
        self.spoils = condition
        return condition

    def aten(self, *names: str) -> Callable[[Adapter], Adapter]:
        """Declare how torch spells this operator: names of ATen overloads (`softmax.int`; `exp` stands for `exp.default`).

        Used as a decorator, the function says how arguments become operands and attributes (`tensorproof.frontends.calls`);
        else the operands are taken as they come.
        """
        return self._spelled("aten", [name if "." in name else f"{name}.default" for name in names])

    def tensorflow(self, *names: str) -> Callable[[Adapter], Adapter]:
        """The same for the names of TensorFlow's operators (`tensorproof.frontends.tensorflow_call`)."""
        return self._spelled("tensorflow", names)

    def jax(self, *names: str) -> Callable[[Adapter], Adapter]:
        """The same for the names of JAX's primitives (`tensorproof.frontends.jax_call`)."""
        return self._spelled("jax", names)

    def _spelled(self, dialect: Dialect, names: Sequence[str]) -> Callable[[Adapter], Adapter]:
        spellings = _SPELLINGS[dialect]
        for name in names:
            if name in spellings:
                raise ValueError(f"{dialect}'s {name} is spelled twice")
            spellings[name] = Spelling(self, None)

        def declare(adapter: Adapter) -> Adapter:
            for name in names:
                spellings[name] = Spelling(self, adapter)
            return adapter

        return declare

    def sums_over(self, axes: WeightAxes) -> WeightAxes:
        """Declare which axes of a constant operand, by its attributes, number and rank, a product sums over (None: no product)."""
        self.weight_axes = axes
        return axes

    @property
    def label(self) -> str:
        return f"{self.domain}::{self.name}" if self.domain else self.name

    @property
    def summary(self) -> str:
        return (self.block.__doc__ or "").strip().splitlines()[0]

    def rules(self) -> tuple[Rule, ...]:
        """All rules that a call of this operator can report, those of the operators that it is composed of included.

        Rules of the backward pass are among them only where the operator's own block declares them: PyTorch differentiates
        a composed operator by a formula of its own.
        """
        found = self._forward_rules() | {hazard.rule.code: hazard.rule for hazard in self.backward_hazards}
        return tuple(found[code] for code in sorted(found))

    def _forward_rules(self) -> dict[str, Rule]:
        found = {hazard.rule.code: hazard.rule for hazard in self.hazards}
        found |= {rule.code: rule for rule in self.declared}
        if self.overflow is not None:
            found[self.overflow.code] = self.overflow
        for part in self.composed_of:
            found |= part._forward_rules()
        return found

    @property
    def is_checkable(self) -> bool:
        """Whether a call of this operator can fail at all."""
        if self._checkable is None:
            self._checkable = self.top is not None or bool(self._forward_rules())
        return self._checkable

    def rounding(self, format: Format, target: Target) -> Rounding:
        """How results of a floating format are rounded."""
        made = self._roundings.get(format.name)
        if made is None or made.target is not target:
            made = Rounding(self.name, self.error.ulps, self.error.absolute, self.codomain, format, target)
            self._roundings[format.name] = made
        return made


@dataclass(frozen=True, slots=True)
class Spelling:
    """An operator of a framework as one of the table: what turns its call into nodes (None: its operands as they come)."""

    operator: Operator
    adapter: Adapter | None

    def translate(self, call: OperatorCall) -> Any:
        """The number of the value that is the result, or a tuple of them."""
        return call.plain(self.operator.name, self.operator.domain) if self.adapter is None else self.adapter(call)


_TABLE: dict[tuple[str, str], Operator] = {}
_SPELLINGS: dict[Dialect, dict[str, Spelling]] = {"aten": {}, "tensorflow": {}, "jax": {}}


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


def spelling_of(name: str, dialect: Dialect = "aten") -> Spelling | None:
    """How an operator of a framework (`softmax.int`) is said in the table's operators; None if no block spells it."""
    _load()
    return _SPELLINGS[dialect].get(name)


def all_spellings(dialect: Dialect = "aten") -> Iterator[tuple[str, Operator]]:
    """Every operator of a framework that a block spells, with its operator of the table."""
    _load()
    return iter(sorted((name, spelling.operator) for name, spelling in _SPELLINGS[dialect].items()))


def all_operators() -> Iterator[Operator]:
    """Every operator of the table, by domain and name."""
    _load()
    return iter(sorted(_TABLE.values(), key=lambda entry: (entry.domain, entry.name)))


#: A version of an operator set that is later than all others.
NEWEST = 10_000


class Attributed(Protocol):
    """What has attributes: a call on ranges, or a run on tensors."""

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, or the default."""
        ...


class Call:
    """One application of an operator: attributes, version and target, and the hazards found on the way."""

    __slots__ = (
        "abstraction",
        "attributes",
        "bounds",
        "cells",
        "hazards",
        "impossible",
        "legal",
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
        version: int = NEWEST,
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
        #: Rules, by code, that cannot fire in this call, and special values that its first result never has, or has by right.
        self.impossible: frozenset[str] = frozenset()
        self.never = 0
        self.legal = 0

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
        if rule.code in self.impossible or not _some(mask):
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
        # Steps of one operator may read one range for several tensors (the slices of a loop): no relations between them.
        abstraction = _unrelated(self.abstraction) if self.abstraction.values == "affine" else self.abstraction
        inner = Call(operator, attributes, target=self.target, hazards=self.hazards, abstraction=abstraction)
        before = len(self.hazards)
        result = evaluate(inner, operands)
        for index in range(before, len(self.hazards)):
            hazard = self.hazards[index]
            if hazard.gives & INFINITIES:
                # What one step makes infinite, the steps after it may turn into any special value.
                self.hazards[index] = replace(hazard, gives=hazard.gives | SPECIALS)
        return result


@cache
def _unrelated(abstraction: Abstraction) -> Abstraction:
    return replace(abstraction, values="interval")


def evaluate(call: Call, operands: Sequence[Abstract | None]) -> Any:
    """One call: hazards asked, block applied, results rounded into their formats.

    Returns what the block returns (one abstract value or a tuple), under the assumption that no hazard fires; the hazards
    that can fire are in `call.hazards`.
    """
    if not is_silent():
        with silence():
            return evaluate(call, operands)
    entry = call.operator
    if entry.interval_rule is not None and call.abstraction.is_plain:
        interval = entry.interval_rule(call, *operands)
        if interval is not None:
            bound = call.bounds[0] if call.bounds else None
            return _complete(call, interval, operands, bound) if interval.has_special else _finish(call, interval, bound)
    for hazard in entry.hazards:
        if hazard.rule.code in call.impossible:
            continue
        mask = hazard.condition(call, *operands)
        if _some(mask):
            index = hazard.operand
            operand = operands[index] if index < len(operands) else None
            if isinstance(operand, Range):
                call.report(hazard.rule, index, operand, mask, gives=hazard.gives)
            else:
                call.hazards.append(Hazard(hazard.rule, index, np.nan, np.nan, hazard.gives, entry.name))
    result = entry.block(call, *operands)
    if call.abstraction.values == "affine":
        result = _with_forms(call, result, operands)
    if isinstance(result, tuple):
        known = (*call.bounds, *(None,) * (len(result) - len(call.bounds)))
        return tuple([_complete(call, part, operands, bound) for part, bound in zip(result, known)])
    return _complete(call, result, operands, call.bounds[0] if call.bounds else None)


def report_derivatives(call: Call, result: Abstract, operands: Sequence[Abstract | None], flowing: Flowing) -> None:
    """Ask an evaluated call for derivatives, by operands that gradients flow to, that break where its result is finite."""
    if not isinstance(result, Range) or not result.format.is_float:
        return
    for hazard in call.operator.backward_hazards:
        operand = operands[hazard.operand]
        if hazard.rule is INFINITE_AT_ZERO and hazard.by in flowing.stopped_at_zero:
            continue
        if hazard.by in flowing.operands and isinstance(operand, Range):
            call.report(hazard.rule, hazard.operand, operand, hazard.condition(call, result, *operands), gives=0)


def _some(mask: Mask) -> bool:
    """Whether a mask marks anything."""
    if isinstance(mask, np.ndarray):
        return mask.item() if mask.size == 1 else bool(mask.any())
    return bool(mask)


def _complete(call: Call, result: Any, operands: Sequence[Abstract | None], bound: Bound | None) -> Any:
    if not isinstance(result, Range):
        return result
    if not call.operator.hands_on and result.array is None and _is_one_of(result, operands):
        result = result.bare()
    if call.operator.norm_rule is not None and call.abstraction.norms:
        result = _with_norm(call, result, operands)
    result = _finish(call, result, bound)
    if not result.has_special:
        return result
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


def _is_one_of(result: Range, operands: Sequence[Abstract | None]) -> bool:
    return any(operand is result for operand in operands)


def _with_forms(call: Call, result: Any, operands: Sequence[Abstract | None]) -> Any:
    """Every result as a tensor of its own, with the affine form that the operator's rule finds."""
    entry = call.operator
    results: list[Any] = []
    for part in result if isinstance(result, tuple) else (result,):
        if isinstance(part, Range) and part.array is None:
            is_operand = _is_one_of(part, operands)
            if not (entry.hands_on and is_operand):
                norm = None if is_operand else part.norm
                part = part.bare()
                part.norm = norm
        results.append(part)
    if entry.form_rule is not None and any(isinstance(x, Range) and x.array is None for x in operands):
        try:
            forms = entry.form_rule(call, tuple(results) if isinstance(result, tuple) else results[0], *operands)
        except (NotAnalysed, UnknownShape):
            forms = None
        for part, form in zip(results, forms if isinstance(forms, tuple) else (forms,)):
            # Integers wrap around, special values are related to nothing.
            if isinstance(part, Range) and part.array is None and part.format.is_float and not part.has_special:
                part.form = form
    return tuple(results) if isinstance(result, tuple) else results[0]


def _with_norm(call: Call, result: Range, operands: Sequence[Abstract | None]) -> Range:
    """The result with the norm that its operator's rule finds, unless the block itself knew one."""
    rule = call.operator.norm_rule
    if result.norm is not None or result.array is not None or result.shape is None or not result.format.is_float:
        return result
    if rule is None or result.has_special or _is_one_of(result, operands):
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
    if entry.error is EXACT and x.array is not None and not (call.target.flushes_results and has_subnormal(x.array, x.format)):
        return x
    if entry.error is EXACT and not call.target.flushes_results:
        return _coarsened(call, x if bound is None else within(x, bound))
    if not x.format.is_float:
        return _coarsened(call, _wrap(x if bound is None else within(x, bound)))
    rounding = entry.rounding(x.format, call.target)
    exact = x.interval()
    if exact is None or isinstance(bound, Range):
        if x.has_special:
            low, high = rounding.cells(x.low, x.high, (-np.inf, np.inf))
            empty = x.low > x.high
            low, high = np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
            result = x.replace(low, high, x.special)
        else:
            hull = x.hull()
            # Rounding is monotone: the hull of what is rounded is the hull, rounded.
            rounded = rounding.interval(*hull) if x.low.size else hull
            if bound is None and x.format.low <= rounded[0] and rounded[1] <= x.format.high:
                # Nothing is to be said of single cells: those that would be merged afterwards are merged at once.
                x = x.limit(call.cells)
            result = x.rounded(*rounding.cells(x.low, x.high, hull), rounded)
        if bound is not None:
            result = within(result, bound)
        return _coarsened(call, _cut_overflow(call, result))
    low, high = rounding.interval(*exact)
    if bound is not None and low <= high and max(low, bound[0]) <= min(high, bound[1]):
        low, high = max(low, bound[0]), min(high, bound[1])
    result = x if (low, high) == exact else x.with_ends(low, high)
    return _cut_overflow(call, result) if high > x.format.high or low < x.format.low else result


def _coarsened(call: Call, x: Range) -> Range:
    """At most as many cells as the call allows; one, if few are asked for and all are equal."""
    x = x.limit(call.cells)
    if call.cells == CELL_BUDGET or x.array is not None or not 1 < x.low.size <= _COMPARED_CELLS or x.has_special:
        return x
    low, high = x.low, x.high
    if (low.item(0), high.item(0)) != x.hull() or not (low == low.item(0)).all() or not (high == high.item(0)).all():
        return x
    return x.smash()


def _finish_related(call: Call, x: Range, bound: Bound | None) -> Range:
    """A result whose elements are related by a norm or an affine form: tightened by both, which are rounded with it."""
    norm, form = x.norm, x.form
    x = x.bare()
    if norm is not None:
        x = norm.tighten(x)
    if form is not None:
        x = form.tighten(x)
    x.norm = x.form = None
    result = _finish(call, x, bound)
    relative = absolute = 0.0
    if call.operator.error is not EXACT or call.target.flushes_results:
        rounding = call.operator.rounding(x.format, call.target)
        relative, absolute = rounding.relative, rounding.absolute
    result.norm = None if norm is None or result.has_special else norm.rounded(result, relative, absolute)
    result.form = None if form is None or result.has_special else form.rounded(result, relative, absolute)
    return result


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
        low, high = x.hull()
        if least <= low and high <= most:
            return x
    low, high = np.maximum(x.low, least), np.minimum(x.high, most)
    # Empty cells hold special values alone. A hull that the bound misses can only come from a hazard that was cut off.
    keep = (low > high) | (x.low > x.high)
    if keep.any():
        low, high = np.where(keep, x.low, low), np.where(keep, x.high, high)
    return x.replace(low, high, x.special if x.has_special else None)


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
    low, high = x.hull()
    if fmt.low <= low and high <= fmt.high:
        return x
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
