"""Suspects of a PyTorch program: operators that can fail, as they are dispatched, and how near they are to it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.confirm.objective import TEMPERATURE
from tensorproof.confirm.place import Place as Measures
from tensorproof.expose.pytorch.recording import Recording
from tensorproof.expose.search.board import Suspect
from tensorproof.expose.search.vulnerable import Weakness, weaknesses
from tensorproof.formats import BY_NAME
from tensorproof.observe.overloads import Overload
from tensorproof.observe.places import Place
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW

if TYPE_CHECKING:
    import torch

#: Numbers nearer to zero than this are measured in a straight line, in float64 and in other formats: derivatives of logarithms of
#: smaller ones are infinite.
_NEAR_IN_64, _NEAR = 1e-300, 1e-37
#: Operators whose results are rounded to a part of their operands: small results are zero.
_SUMS = frozenset({"sub", "rsub", "add"})
#: Operators whose exponent is the objective of their overflow (`tensorproof.rules.exponential_overflow`).
_EXPONENTIALS = ("Exp", "Exp2", "Expm1", "Softplus", "Sinh", "Cosh")


class _Measures(Measures):
    """What rules measure, down to numbers that are zero in the format of the program."""

    __slots__ = ()

    def _floating(self, x: Any) -> Any:
        return x if x.dtype in (self.torch.float32, self.torch.float64) else x.to(self.torch.float32)

    def below(self, x: Any) -> Any:
        near = _NEAR_IN_64 if x.dtype == self.torch.float64 else _NEAR
        return self.torch.where(x > near, x.clamp(min=near).log(), x / near - 1.0 + math.log(near))


@dataclass(frozen=True, slots=True)
class Execution:
    """An operator that can fail in one way, as it ran."""

    weakness: Weakness
    operands: Sequence[Any]
    result: torch.Tensor

    @property
    def decisive(self) -> torch.Tensor:
        """The operand that decides, or the result."""
        return self.result if self.weakness.operand < 0 else self.operands[self.weakness.operand]

    def terms(self, operands: Sequence[Any], result: torch.Tensor) -> torch.Tensor:
        """What the rule wants to be small, element by element, for these operands and this result."""
        import torch

        # Rules measure tensors: a number of the program, such as an exponent, is one here.
        tensors = [x if _is_tensor(x) else torch.tensor(x, dtype=result.dtype) for x in operands]
        # Of an exponential that overflows, the exponent is measured.
        index = max(0, self.weakness.operand) if self.weakness.rule is EXPONENTIAL_OVERFLOW else self.weakness.operand
        place = _Measures(torch, self.weakness.operator.name, {}, tensors, [result], index, _limit(result))
        sought = self.weakness.rule.sought
        assert sought is not None
        terms = sought(place)
        return place.far(result) if terms is None else terms

    def distance(self) -> float:
        """How near it was."""
        import torch

        with torch.no_grad():
            terms = self.terms(self.operands, self.result)
        finite = terms[torch.isfinite(terms)]
        return float(finite.min()) if finite.numel() else math.inf

    def tensors(self) -> list[torch.Tensor]:
        """The operands that are tensors, and the result."""
        return [*(x for x in self.operands if _is_tensor(x)), self.result]

    def on(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        """The terms for other values of `tensors`."""
        pending = iter(values)
        operands = [next(pending) if _is_tensor(x) else x for x in self.operands]
        return self.terms(operands, next(pending))


def executions(function: Any, overload: Overload, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> list[Execution]:
    """The ways in which an operator that ran could have failed. Those that are decided by a number of the program are none."""
    import torch

    known = weaknesses("aten")
    name = overload.name.removesuffix("_") if overload.writes else overload.name
    found = known.get(f"{name}.{function._overloadname}")
    if not found or not isinstance(result, torch.Tensor) or not result.is_floating_point() or not result.numel():
        return []
    given = [args[index] if index < len(args) else kwargs.get(label) for index, label in enumerate(overload.arguments)]
    operands = [x for x in given if _is_tensor(x) or (isinstance(x, int | float) and not isinstance(x, bool))]
    makes_gradients = torch.is_grad_enabled()
    usable: list[Execution] = []
    for weakness in found:
        execution = Execution(weakness, operands, result)
        if weakness.operand >= len(operands):
            continue
        decisive = execution.decisive
        if not _is_tensor(decisive) or not decisive.is_floating_point() or decisive.device.type != "cpu":
            continue
        if weakness.phase == "backward" and not (makes_gradients and decisive.requires_grad):
            continue
        usable.append(execution)
    return usable


def suspect_of(execution: Execution, operator: str, place: Place, recording: Recording) -> Suspect:
    """The suspect that an execution belongs to, by where it stands in the user's source."""
    return Suspect(
        suspect_name(operator, place, execution.weakness),
        execution.weakness,
        operator,
        place.file,
        place.line,
        floor=_floor(execution, recording),
    )


def suspect_name(operator: str, place: Place, weakness: Weakness) -> str:
    """The same in every run."""
    return f"{Path(place.file or '').name}:{place.line}:{place.column}:{operator.strip('_')}:{weakness.key}"


def _floor(execution: Execution, recording: Recording) -> float:
    """What the objective is at the smallest number that the operand can be: differences are multiples of a rounding unit."""
    import torch

    decisive = execution.decisive
    if execution.weakness.rule is EXPONENTIAL_OVERFLOW:
        return -math.log(_limit(decisive)) if execution.weakness.operator.name in _EXPONENTIALS else 0.0
    maker = recording.maker(decisive)
    if execution.weakness.operand < 0 or maker is None or maker.overload.name.strip("_") not in _SUMS:
        return _smallest(decisive) if execution.weakness.operand >= 0 else 0.0
    largest = max((float(x.detach().abs().max()) for x in maker.args if _is_tensor(x) and x.numel()), default=1.0)
    numbers = [abs(float(x)) for x in maker.args if isinstance(x, int | float)]
    unit = float(torch.finfo(decisive.dtype).eps) / 2
    return max(_smallest(decisive), math.log(max(unit * max(largest, *numbers, 1e-30), _NEAR)))


def _smallest(tensor: torch.Tensor) -> float:
    """The logarithm of the number below which results are rounded to zero: half of the smallest one."""
    import torch

    information = torch.finfo(tensor.dtype)
    return math.log(max(information.smallest_normal * information.eps / 2, 5e-324))


def _limit(result: torch.Tensor) -> float:
    """The largest number of a format."""
    import torch

    format = BY_NAME.get(str(result.dtype).removeprefix("torch."))
    return float(torch.finfo(result.dtype).max) if format is None else float(format.high)


def softmin(terms: torch.Tensor) -> torch.Tensor | None:
    """The smallest term; those as small have their say (as in `tensorproof.confirm.objective`). None if none is finite."""
    import torch

    near = terms.reshape(-1)
    near = near[torch.isfinite(near)]
    return -TEMPERATURE * torch.logsumexp(-near / TEMPERATURE, 0) if near.numel() else None


def scores(terms: torch.Tensor, samples: int) -> npt.NDArray[np.float64] | None:
    """How near each sample of a batch is, where the first axis of the terms is that of the samples."""
    if not terms.dim() or terms.shape[0] != samples:
        return None
    return terms.detach().reshape(samples, -1).amin(dim=1).double().nan_to_num(math.inf).numpy()


def _is_tensor(item: Any) -> bool:
    import torch

    return isinstance(item, torch.Tensor)
