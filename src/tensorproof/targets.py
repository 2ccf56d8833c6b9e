"""Targets: how a runtime evaluates what the model file only names.

A verdict holds for one target. It states whether subnormal results are flushed to zero, in which format sums
accumulate, whether chains of 16-bit operators may stay in float32, and where a function of the runtime is known to be
farther from the mathematical one than its operator's block says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tensorproof.errors import ConfigurationError
from tensorproof.formats import FLOAT32, Format


@dataclass(frozen=True, slots=True)
class FunctionError:
    """A bound on |computed - exact| of one operator beyond its block's: `absolute` + `ulps` units in the last place.

    `overshoot` is how far results leave the operator's codomain. Results beyond the format's largest number divided by
    `headroom` may be infinite already. `formats` names the formats that all this holds for; none stands for all.
    """

    absolute: float = 0.0
    ulps: float = 0.0
    overshoot: float = 0.0
    headroom: float = 1.0
    formats: frozenset[str] = frozenset()


_NONE: Mapping[str, FunctionError] = MappingProxyType({})
_NO_ERROR = FunctionError()


@dataclass(frozen=True, slots=True)
class Target:
    """The arithmetic of one runtime.

    `flushes_results` (FTZ) and `flushes_operands` (DAZ) are separate: under FTZ alone x != y does not imply x - y != 0.
    `evaluates_in_float32` names operators whose operands are converted to float32 even if they are float64 or integers.
    """

    name: str
    description: str
    flushes_results: bool = False
    flushes_operands: bool = False
    accumulates_wide: bool = False
    keeps_chains_wide: bool = False
    evaluates_in_float32: frozenset[str] = frozenset()
    function_errors: Mapping[str, FunctionError] = field(default_factory=lambda: _NONE)

    def accumulation(self, fmt: Format) -> Format:
        """The format in which sums of `fmt` terms are accumulated."""
        return FLOAT32 if self.accumulates_wide and fmt.is_float and fmt.bits < 32 else fmt

    def function_error(self, name: str, fmt: Format) -> FunctionError:
        """What this target adds to the error of an operator's block."""
        found = self.function_errors.get(name, _NO_ERROR)
        return found if not found.formats or fmt.name in found.formats else _NO_ERROR


IEEE = Target("ieee", "IEEE 754 with subnormals; sums accumulate in the tensor's own format, in any order.")
ONNXRUNTIME_CPU = Target(
    "onnxruntime-cpu",
    "ONNX Runtime's CPU provider: subnormals kept, 16-bit sums in float32, 16-bit chains may stay in float32.",
    accumulates_wide=True,
    keeps_chains_wide=True,
    evaluates_in_float32=frozenset({"Shrink"}),
    function_errors=MappingProxyType(
        {
            # Errors against float64 (float64 functions against 80 bits) over 3 million float32 arguments of the whole
            # line, and all float16 ones; ONNX Runtime 1.31, x86-64 with AVX-512. MLAS evaluates sigmoid and tanh by
            # rational functions: sigmoid is exactly 0 from -16.3 on and off by a factor of two at -17 (worst 1.7e-7);
            # tanh is off by 5.3 units, exceeds 1 by 2.4e-7, and is 0 for subnormal arguments.
            "Sigmoid": FunctionError(absolute=2.0**-22),
            "Tanh": FunctionError(absolute=2.0**-126, ulps=4.0, overshoot=2.0**-21),
            # What is computed with them: worst 7.8e-7 for Gelu with tanh, positive by as much below zero; 2.6e-6 for
            # Mish at 8.5. Swish takes the error of its sigmoid.
            "Gelu": FunctionError(absolute=2.0**-20),
            "Mish": FunctionError(absolute=2.0**-19, ulps=8.0),
            # The division has a relative error of 2.4e-7: the quotient exceeds 1.
            "Softsign": FunctionError(ulps=2.0, overshoot=2.0**-21),
            # Worst 4.3 units for arc sine and cosine, 3.6 for the arc tangent, 3.0 for the logarithm. Sine and cosine
            # of float64 arguments lose 6.6e-16 beside their zeros.
            "Asin": FunctionError(ulps=2.0),
            "Acos": FunctionError(ulps=2.0),
            "Atan": FunctionError(ulps=2.0),
            "Log": FunctionError(ulps=2.0),
            "Sin": FunctionError(absolute=2.0**-49),
            "Cos": FunctionError(absolute=2.0**-49),
        }
    ),
)
TORCH_CPU = Target(
    "torch-cpu",
    "PyTorch on the CPU: subnormals kept, 16-bit sums accumulate in float32.",
    accumulates_wide=True,
    function_errors=MappingProxyType(
        {
            # Against float64 over a million float32 arguments of the whole line and all 16-bit ones, and float64 against 60
            # digits; torch 2.13, x86-64 with AVX-512, contiguous and strided tensors. All other functions keep within the
            # errors of their blocks. The square root comes from MKL's vector library: 0.56 units, not 0.5.
            "Sqrt": FunctionError(ulps=0.25),
            # 16-bit tensors take formula 7.1.26 of Abramowitz and Stegun: worst 2.9e-7, and not exactly 0 at 0.
            "Erf": FunctionError(absolute=2.0**-21, formats=frozenset({"float16", "bfloat16"})),
            # (exp(x) - exp(-x)) / 2 in vectors: infinite as soon as exp(x) is.
            "Sinh": FunctionError(headroom=2.0),
            "Cosh": FunctionError(headroom=2.0),
            # Subnormal results are lost in bfloat16; x (1 + erf) overflows before it is halved.
            "Gelu": FunctionError(absolute=2.0**-126, headroom=2.0, formats=frozenset({"float32", "bfloat16"})),
            # x relu6(x + 3) / 6, where the product overflows first.
            "HardSwish": FunctionError(ulps=2.0, headroom=6.0, formats=frozenset({"float32", "bfloat16", "float64"})),
        }
    ),
)
TENSORFLOW_CPU = Target(
    "tensorflow-cpu",
    "TensorFlow on the CPU: subnormal operands and results are flushed to zero.",
    flushes_results=True,
    flushes_operands=True,
    accumulates_wide=True,
)

TARGETS: Mapping[str, Target] = MappingProxyType(
    {target.name: target for target in (IEEE, ONNXRUNTIME_CPU, TORCH_CPU, TENSORFLOW_CPU)}
)


def find_target(name: str) -> Target:
    """The target of that name."""
    try:
        return TARGETS[name]
    except KeyError:
        raise ConfigurationError(f"unknown target {name!r}; known are {', '.join(TARGETS)}") from None
