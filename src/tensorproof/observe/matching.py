"""Failures of a run as findings: the rule that fits the operator best, the operand that explains it, and the user's line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tensorproof.findings import Finding, Location, Reaches, Verdict
from tensorproof.formats import BY_NAME
from tensorproof.observe.eager import Failure
from tensorproof.observe.places import Place
from tensorproof.observe.values import Operand
from tensorproof.report.plain_text import interval, number
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.cast_overflow import CAST_OVERFLOW
from tensorproof.rules.degenerate_normalisation import DEGENERATE_NORMALISATION
from tensorproof.rules.derivative_overflow import DERIVATIVE_OVERFLOW
from tensorproof.rules.division_by_zero import DIVISION_BY_ZERO
from tensorproof.rules.empty_reduction import EMPTY_REDUCTION
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW
from tensorproof.rules.gamma_function_at_pole import GAMMA_AT_POLE
from tensorproof.rules.infinite_derivative_at_edge import INFINITE_AT_EDGE
from tensorproof.rules.infinite_derivative_at_zero import INFINITE_AT_ZERO
from tensorproof.rules.invalid_operation_on_infinity import INVALID_ON_INFINITY
from tensorproof.rules.inverse_function_outside_domain import INVERSE_OUTSIDE_DOMAIN
from tensorproof.rules.log_of_nonpositive import LOG_OF_NONPOSITIVE
from tensorproof.rules.masked_softmax import MASKED_SOFTMAX
from tensorproof.rules.modulo_by_zero import MODULO_BY_ZERO
from tensorproof.rules.power_outside_domain import POWER_OUTSIDE_DOMAIN
from tensorproof.rules.range_step_of_zero import RANGE_STEP_OF_ZERO
from tensorproof.rules.rule import Rule
from tensorproof.rules.sqrt_of_negative import SQRT_OF_NEGATIVE
from tensorproof.rules.unselected_branch import UNSELECTED_BRANCH
from tensorproof.rules.zero_total_weight import ZERO_TOTAL_WEIGHT

#: Rules of operators that fail in one way, by the names of ATen without underscores at their ends.
_FORWARD: dict[str, Rule] = {
    **dict.fromkeys(("log", "log2", "log10", "log1p", "xlogy", "special_xlog1py", "logit"), LOG_OF_NONPOSITIVE),
    "sqrt": SQRT_OF_NEGATIVE,
    **dict.fromkeys(("acos", "asin", "acosh", "atanh", "erfinv", "special_ndtri"), INVERSE_OUTSIDE_DOMAIN),
    **dict.fromkeys(("fmod", "remainder"), MODULO_BY_ZERO),
    **dict.fromkeys(("exp", "exp2", "expm1", "sinh", "cosh"), EXPONENTIAL_OVERFLOW),
    **dict.fromkeys(("lgamma", "digamma", "polygamma", "mvlgamma"), GAMMA_AT_POLE),
    **dict.fromkeys(("to_copy", "copy"), CAST_OVERFLOW),
    "arange": RANGE_STEP_OF_ZERO,
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), ZERO_TOTAL_WEIGHT),
}
#: Beginnings of names: operators that sum, and operators that normalise.
_SUMS = (
    "mm", "bmm", "addmm", "addbmm", "baddbmm", "addmv", "mv", "dot", "sum", "cumsum", "prod", "cumprod", "mean", "conv", "linear",
    "norm", "linalg_vector_norm", "mse_loss", "var", "std", "logsumexp", "cdist", "einsum", "index_add", "scatter_add", "mkldnn",
)  # fmt: skip
_NORMALISATIONS = (
    "native_batch_norm",
    "native_layer_norm",
    "native_group_norm",
    "batch_norm",
    "cudnn_batch_norm",
    "fused_rms_norm",
)
_SOFTMAX = ("softmax", "log_softmax", "safe_softmax", "scaled_dot_product")
_REDUCTIONS = ("mean", "var", "std", "nanmean")
_QUOTIENTS = ("div", "true_divide", "reciprocal", "rsqrt", "addcdiv")
_INFINITE_AT_ZERO = ("sqrt", "pow", "hypot", "norm", "linalg_vector_norm", "std", "cdist")
_INFINITE_AT_EDGE = ("acos", "asin", "acosh", "atanh")


def matched_rule(failure: Failure) -> Rule:
    """The rule that describes a failure best."""
    if failure.phase == "forward":
        return _forward_rule(failure)
    name = _plain(failure.operator)
    if failure.uses_special:
        return UNSELECTED_BRANCH
    if name in _INFINITE_AT_ZERO:
        return INFINITE_AT_ZERO
    return INFINITE_AT_EDGE if name in _INFINITE_AT_EDGE else DERIVATIVE_OVERFLOW


def _forward_rule(failure: Failure) -> Rule:
    name = _plain(failure.operator)
    makes_nan = any(result.nans for result in failure.results)
    if name.startswith(_SOFTMAX):
        return MASKED_SOFTMAX if failure.uses_special else ARITHMETIC_OVERFLOW
    if failure.uses_special:
        return INVALID_ON_INFINITY
    if name in _FORWARD:
        return _FORWARD[name]
    if name in _QUOTIENTS:
        if name == "rsqrt" and failure.operands[0].low < 0:
            return SQRT_OF_NEGATIVE
        return DIVISION_BY_ZERO if makes_nan or _has_zero(failure.operands[-1]) else ARITHMETIC_OVERFLOW
    if name == "pow":
        return POWER_OUTSIDE_DOMAIN if makes_nan or _has_zero(failure.operands[0]) else ARITHMETIC_OVERFLOW
    if name.startswith(_NORMALISATIONS):
        return DEGENERATE_NORMALISATION
    if name.startswith(_REDUCTIONS) and makes_nan:
        return EMPTY_REDUCTION
    if name.startswith(_SUMS):
        return ACCUMULATION_OVERFLOW
    return INVALID_ON_INFINITY if makes_nan else ARITHMETIC_OVERFLOW


def to_finding(failure: Failure, reaches: Reaches | None, consequence_of: Sequence[str] = ()) -> Finding:
    """A failure in the form of every other finding. What was seen in the run is both its range and what it reached."""
    rule = matched_rule(failure)
    operand = _telling(failure, rule)
    seen = (operand.low, operand.high)
    is_overflow = rule.code.startswith("NUM2")
    fmt = BY_NAME.get(operand.format)
    return Finding(
        rule=rule,
        node=node_name(failure),
        op=f"aten.{failure.operator}",
        operand=operand.name,
        low=operand.low,
        high=operand.high,
        message=_message(failure, operand),
        target=f"torch-{failure.device}",
        format=operand.format,
        phase=failure.phase,
        verdict=Verdict.CONFIRMED,
        limit=fmt.high if is_overflow and fmt is not None else None,
        reached=seen,
        reaches=reaches,
        consequence_of=tuple(consequence_of),
        location=_location(failure.place),
    )


def _location(place: Place) -> Location:
    return Location(place.file, place.line, place.module or None, None if place.column is None else place.column + 1)


def node_name(failure: Failure) -> str:
    """The module, the function and the operator: what stays when lines move."""
    place = failure.place
    parts = (place.module, place.function, failure.node or failure.operator)
    return "/".join(part for part in parts if part)


def same_place(failures: Iterable[Failure], place: Place) -> bool:
    """Whether one of the failures happened there."""
    return any(failure.place == place for failure in failures)


def _telling(failure: Failure, rule: Rule) -> Operand:
    """The operand that a reader wants to see: the divisor, what was saved for the derivative, else the first one."""
    if not failure.operands:
        return failure.results[0]
    if failure.phase == "backward":
        saved = [operand for operand in failure.operands if operand.name.startswith("saved_")]
        return (saved or failure.operands)[0]
    return failure.operands[-1 if rule is DIVISION_BY_ZERO else 0]


def _message(failure: Failure, operand: Operand) -> str:
    seen = f"{operand.name} in {interval(operand.low, operand.high)}{_specials(operand.nans, operand.infinities)}"
    times = "" if failure.times == 1 else f", {failure.times} times"
    if failure.phase == "backward":
        return f"{failure.node} turned finite gradients into gradients that are not{times}; {seen}"
    nans = sum(result.nans for result in failure.results)
    infinities = sum(result.infinities for result in failure.results)
    return f"aten.{failure.operator} returned {_counted(nans, infinities)}{times}; {seen}"


def _specials(nans: int, infinities: int) -> str:
    return f" and {_counted(nans, infinities)}" if nans or infinities else ""


def _counted(nans: int, infinities: int) -> str:
    parts = [f"{number(amount)} {what}" for amount, what in ((nans, "NaN"), (infinities, "infinite")) if amount]
    return " and ".join(parts)


def _has_zero(operand: Operand) -> bool:
    return operand.low <= 0 <= operand.high


def _plain(name: str) -> str:
    return name.strip("_").removeprefix("foreach_")


def findings_of(
    forward: Collection[Failure],
    backward: Collection[Failure],
    *,
    is_output_finite: bool,
    is_loss_finite: bool | None,
    has_bad_gradients: bool,
    was_differentiated: bool,
) -> list[Finding]:
    """The findings of one step, what follows from another one marked as such.

    A forward failure that the loss or the output shows is the root of what fails in the backward pass. One that they do not show,
    while the gradient of the same operator fails, is told as the latter: that is what does harm.
    """
    is_seen = is_loss_finite is False or not is_output_finite
    roots = tuple(dict.fromkeys(map(node_name, forward))) if is_seen else ()
    found: list[Finding] = []
    for failure in forward:
        if is_seen or not same_place(backward, failure.place):
            found.append(to_finding(failure, _reaches(is_output_finite, is_loss_finite, has_bad_gradients, was_differentiated)))
    for failure in backward:
        found.append(to_finding(failure, "gradient" if has_bad_gradients else "nowhere", roots))
    return found


def _reaches(
    is_output_finite: bool, is_loss_finite: bool | None, has_bad_gradients: bool, was_differentiated: bool
) -> Reaches | None:
    if is_loss_finite is False:
        return "loss"
    if not is_output_finite:
        return "output"
    if has_bad_gradients:
        return "gradient"
    return "nowhere" if was_differentiated else None
