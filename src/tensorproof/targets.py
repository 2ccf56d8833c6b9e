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


_Errors = Mapping[str, FunctionError | tuple[FunctionError, ...]]
_NONE: _Errors = MappingProxyType({})
_NO_ERROR = FunctionError()


@dataclass(frozen=True, slots=True)
class Target:
    """The arithmetic of one runtime.

    `flushes_results` (FTZ) and `flushes_operands` (DAZ) are separate: under FTZ alone x != y does not imply x - y != 0.
    `fuses_products` says that a product may enter a sum without being rounded (fused multiply-add).
    An operator whose errors differ by format has several `function_errors`.
    `evaluates_in_float32` names operators whose operands are converted to float32 even if they are float64 or integers.
    """

    name: str
    description: str
    flushes_results: bool = False
    flushes_operands: bool = False
    accumulates_wide: bool = False
    keeps_chains_wide: bool = False
    fuses_products: bool = False
    evaluates_in_float32: frozenset[str] = frozenset()
    #: Whether constants of a graph may be put together before it runs: (x + a) + b as x + (a + b).
    reassociates: bool = False
    function_errors: _Errors = field(default_factory=lambda: _NONE)

    def accumulation(self, fmt: Format) -> Format:
        """The format in which sums of `fmt` terms are accumulated."""
        return FLOAT32 if self.accumulates_wide and fmt.is_float and fmt.bits < 32 else fmt

    def function_error(self, name: str, fmt: Format) -> FunctionError:
        """What this target adds to the error of an operator's block."""
        stated = self.function_errors.get(name, _NO_ERROR)
        for found in stated if isinstance(stated, tuple) else (stated,):
            if not found.formats or fmt.name in found.formats:
                return found
        return _NO_ERROR


_SINGLE, _DOUBLE, _WIDE = frozenset({"float32"}), frozenset({"float64"}), frozenset({"float32", "float64"})

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
    "TensorFlow on the CPU: subnormal operands and results are flushed to zero, 16-bit sums accumulate in float32; in graphs"
    " constants may be gathered first ((1 - x) + 1e-8 is computed as 1 - x).",
    flushes_results=True,
    flushes_operands=True,
    accumulates_wide=True,
    reassociates=True,
    function_errors=MappingProxyType(
        {
            # Against float64 over a million float32 arguments of the whole line, alone and in vectors, and all 16-bit ones, which
            # are computed in float32, and float64 ones against NumPy; TensorFlow 2.21, x86-64 with AVX-512. Worst in units of the
            # last place: 5.2 for the error function, 7 for tanh (float64), 4.0 for expm1, asin, acos and atan, 3.8 for log1p;
            # 63 for erfc where it is small, and 322 in float64.
            "Erf": FunctionError(ulps=4.0, formats=_WIDE),
            "Tanh": FunctionError(ulps=6.0, formats=_WIDE),
            "Expm1": FunctionError(ulps=2.0, formats=_WIDE),
            "Log1p": FunctionError(ulps=2.0, formats=_WIDE),
            "Asin": FunctionError(ulps=2.0, formats=_WIDE),
            "Acos": FunctionError(ulps=2.0, formats=_WIDE),
            "Atan": FunctionError(ulps=2.0, formats=_WIDE),
            "Erfc": (FunctionError(ulps=92.0, formats=_SINGLE), FunctionError(ulps=400.0, formats=_DOUBLE)),
            # Newton's iteration in vectors: 2 units, and from 1e34 on, where the results of its steps are flushed, up to the
            # smallest normal number. The reciprocal square root, which is spelled in two steps, is one: 3.2 units.
            "Reciprocal": FunctionError(ulps=4.0, absolute=2.0**-126),
        }
    ),
)
JAX_CPU = Target(
    "jax-cpu",
    "JAX on the CPU: XLA flushes subnormal operands and results to zero, fuses products into sums, may keep chains of 16-bit"
    " operators in float32 and divides by constants through their reciprocal. Programs are taken as written, although XLA adds"
    " constants first ((1 - x) + 1e-8 becomes 1 - x) and replaces exp(x) exp(y), log(exp(x)) and quotients of quotients.",
    flushes_results=True,
    flushes_operands=True,
    accumulates_wide=True,
    keeps_chains_wide=True,
    fuses_products=True,
    function_errors=MappingProxyType(
        {
            # Against float64 over a million float32 arguments of the whole line, alone and in vectors, and all 16-bit ones;
            # JAX 0.10.2, x86-64 with AVX-512. A quotient by a number that is one for all elements is a product: 1.5 units.
            "Div": FunctionError(ulps=1.0),
            # The reciprocal square root, which is spelled in two steps, is one: 2.6 units.
            "Reciprocal": FunctionError(ulps=3.0),
            # Worst in units of the last place: 5.0 for exp and expm1 beside their overflow, 4.1 for the arc tangent, 5.2 for the
            # error function, which exceeds 1; 24.5 for sinh and cosh, 64 for erfc and the inverse of erf. In float64 (against
            # NumPy) 129 for log1p and atanh, 467 for sinh and cosh, 482 for erfc, 140,000 for the inverse of erf, 6 for tanh.
            "Exp": FunctionError(ulps=4.0),
            "Expm1": FunctionError(ulps=4.0),
            "Log1p": FunctionError(ulps=160.0, formats=_DOUBLE),
            "Atanh": FunctionError(ulps=160.0, formats=_DOUBLE),
            "Tanh": FunctionError(ulps=4.0, formats=_DOUBLE),
            "Atan": FunctionError(ulps=4.0),
            "Sinh": (FunctionError(ulps=28.0, formats=_SINGLE), FunctionError(ulps=600.0, formats=_DOUBLE)),
            "Cosh": (FunctionError(ulps=28.0, formats=_SINGLE), FunctionError(ulps=600.0, formats=_DOUBLE)),
            "Erf": FunctionError(ulps=4.0, overshoot=2.0**-21),
            "Erfc": (FunctionError(ulps=92.0, formats=_SINGLE), FunctionError(ulps=800.0, formats=_DOUBLE)),
            "Erfinv": (FunctionError(ulps=92.0, formats=_SINGLE), FunctionError(ulps=2.0**18, formats=_DOUBLE)),
            "Digamma": FunctionError(ulps=8.0),
            # 2 atan2(x, 1 + sqrt(1 - x^2)), whose quotient is flushed for the smallest numbers.
            "Asin": FunctionError(absolute=2.0**-125),
            # -5.6e-16 for subnormal numbers of either sign.
            "Cbrt": FunctionError(absolute=2.0**-50),
            # Lanczos' sum cancels beside the zeros at 1 and 2: worst 3.3e-6.
            "Lgamma": FunctionError(absolute=2.0**-17, ulps=8.0),
        }
    ),
)

TARGETS: Mapping[str, Target] = MappingProxyType(
    {target.name: target for target in (IEEE, ONNXRUNTIME_CPU, TORCH_CPU, TENSORFLOW_CPU, JAX_CPU)}
)


def flushes_subnormals(name: str) -> bool:
    """Whether the target of that name takes every subnormal number for zero. What is no target of ours does not."""
    target = TARGETS.get(name)
    return target is not None and target.flushes_results and target.flushes_operands


def find_target(name: str) -> Target:
    """The target of that name."""
    try:
        return TARGETS[name]
    except KeyError:
        raise ConfigurationError(f"unknown target {name!r}; known are {', '.join(TARGETS)}") from None
