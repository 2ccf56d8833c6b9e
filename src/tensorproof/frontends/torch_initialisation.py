"""What the weights of a module may be when it is built: the distributions that its initialisation draws from.

`torch.nn.init` and the methods that it uses (`uniform_`, `normal_`, `fill_`, ...) are observed while the module is built. A
weight whose numbers were last written as a whole by one of them has the range of that distribution; of all others the spread
of the numbers that they have is known, and no more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    import torch

#: Normal numbers of torch's CPU generator are at most this many deviations from their mean in float32: it takes the logarithm
#: of a uniform number of 24 bits (Box and Muller), and sqrt(-2 log(2^-24)) < 5.77; float64 has 53 bits, and 8.58.
DEVIATIONS = 8.6


#: Functions that make a tensor, as the in-place operator, with its arguments, that would fill it so.
_MADE: dict[str, tuple[Any, ...]] = {
    "zeros": ("fill_", 0.0),
    "ones": ("fill_", 1.0),
    "rand": ("uniform_", 0.0, 1.0),
    "randn": ("normal_", 0.0, 1.0),
}


@dataclass(slots=True)
class Initialisation:
    """Ranges of tensors, by the memory that they lie in and their size."""

    _ranges: dict[tuple[int, int], tuple[float, float] | None] = field(default_factory=dict[tuple[int, int], Any])

    def of(self, module: torch.nn.Module) -> dict[str, tuple[float, float]]:
        """The ranges of the module's weights that are known, by their names in `state_dict`."""
        found: dict[str, tuple[float, float]] = {}
        for name, tensor in module.state_dict().items():
            ends = self._ranges.get((tensor.data_ptr(), tensor.numel()))
            if ends is not None and tensor.is_floating_point():
                found[name] = ends
        return found

    def note(self, function: str, tensor: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """An operator that changed a tensor in place."""
        key = tensor.data_ptr(), tensor.numel()
        self._ranges[key] = _ends(function, args, kwargs, self._ranges.get(key))

    def begin(self, tensor: torch.Tensor) -> None:
        """A new tensor, perhaps where another one lay that is gone."""
        self._ranges.pop((tensor.data_ptr(), tensor.numel()), None)


def _ends(
    function: str, args: tuple[Any, ...], kwargs: dict[str, Any], before: tuple[float, float] | None
) -> tuple[float, float] | None:
    """The range of numbers that an in-place operator leaves; None if that is not known."""

    def argument(position: int, name: str, default: float | None = None) -> float | None:
        value = args[position] if position < len(args) else kwargs.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    match function:
        case "uniform_":
            low, high = argument(0, "from", 0.0), argument(1, "to", 1.0)
            return None if low is None or high is None else (low, high)
        case "normal_":
            mean, deviation = argument(0, "mean", 0.0), argument(1, "std", 1.0)
            if mean is None or deviation is None:
                return None
            return mean - DEVIATIONS * deviation, mean + DEVIATIONS * deviation
        case "zero_":
            return 0.0, 0.0
        case "fill_":
            value = argument(0, "value")
            return None if value is None else (value, value)
        case "clamp_":
            low, high = argument(0, "min"), argument(1, "max")
            return None if low is None or high is None else (low, high)
        case "mul_":
            factor = argument(0, "other")
            if before is None or factor is None:
                return None
            return min(before[0] * factor, before[1] * factor), max(before[0] * factor, before[1] * factor)
        case "add_":
            term = argument(0, "other")
            return None if before is None or term is None else (before[0] + term, before[1] + term)
        case _:
            return None


@contextlib.contextmanager
def observed_initialisation() -> Generator[Initialisation]:
    """Observe how tensors are filled while a module is built."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    initialisation = Initialisation()

    class Observer(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            name = func._schema.name.partition("::")[2]
            if name.endswith("_") and not name.endswith("__"):
                initialisation.note(name, args[0], tuple(args[1:]), kwargs or {})
            elif isinstance(result, torch.Tensor) and not any(
                isinstance(arg, torch.Tensor) and arg.data_ptr() == result.data_ptr() for arg in args
            ):
                initialisation.begin(result)
                if name in _MADE:
                    initialisation.note(_MADE[name][0], result, _MADE[name][1:], {})
            return result

    truncated = torch.nn.init.trunc_normal_

    def trunc_normal_(
        tensor: torch.Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, **rest: Any
    ) -> Any:
        # It draws until all numbers are inside, and copies them: no single operator says what they are.
        result = truncated(tensor, mean, std, a, b, **rest)
        initialisation.note("clamp_", tensor, (max(a, mean - DEVIATIONS * std), min(b, mean + DEVIATIONS * std)), {})
        return result

    with Observer(), mock.patch.object(torch.nn.init, "trunc_normal_", trunc_normal_):
        yield initialisation
