"""Number formats: what each can hold, and outward rounding into it.

Bounds are kept in float64 throughout. Every format but float64 and the 64-bit integers is a subset of float64, so rounding
into a format is exact arithmetic on powers of two; no hardware rounding mode is touched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
_INFINITY = np.float32(np.inf)
Kind = Literal["float", "int", "bool", "string", "complex"]


@dataclass(frozen=True, slots=True)
class Format:
    """One element type.

    `low` and `high` are the smallest and largest finite values. `digits` is the precision p of a floating format (24 for
    float32) and `least_exponent` the exponent of its smallest normal number (IEEE 754-2019, table 3.5).
    """

    name: str
    kind: Kind
    bits: int
    onnx_code: int
    dtype: np.dtype[Any]
    low: float
    high: float
    digits: int = 0
    least_exponent: int = 0
    has_infinity: bool = False
    has_nan: bool = False
    has_subnormals: bool = True

    #: The following are derived from those above; they are fields because every node asks for some of them.
    is_float: bool = field(init=False, repr=False, compare=False)
    is_integer: bool = field(init=False, repr=False, compare=False)
    #: u = 2**-p: the largest relative error of one rounding to nearest in the normal range.
    unit_roundoff: float = field(init=False, repr=False, compare=False)
    smallest_normal: float = field(init=False, repr=False, compare=False)
    #: The smallest positive number; every result below half of it rounds to zero.
    smallest_subnormal: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        floating = self.kind == "float"
        normal = 2.0**self.least_exponent
        subnormal = 2.0 ** (self.least_exponent - self.digits + 1) if self.has_subnormals else normal
        object.__setattr__(self, "is_float", floating)
        object.__setattr__(self, "is_integer", self.kind == "int")
        object.__setattr__(self, "unit_roundoff", 2.0**-self.digits if floating else 0.0)
        object.__setattr__(self, "smallest_normal", normal)
        object.__setattr__(self, "smallest_subnormal", subnormal)

    def quantum(self, values: Array) -> Array:
        """The distance of neighbouring numbers at each value (one ulp), the exponent range unbounded above."""
        _, exponent = np.frexp(values)
        # np.frexp gives 0.5 <= |m| < 1, so the exponent of the leading bit is one less; infinities and NaN get exponent 0.
        return np.ldexp(1.0, np.maximum(exponent - 1, self.least_exponent) - self.digits + 1)

    def quantum_at(self, value: float) -> float:
        """`quantum` of one number."""
        exponent = math.frexp(value)[1] - 1
        return math.ldexp(1.0, (exponent if exponent > self.least_exponent else self.least_exponent) - self.digits + 1)

    def round_nearest(self, values: Array, *, moderate: bool = False) -> Array:
        """To nearest, ties to even; values beyond the largest number round past it so that overflow stays visible.

        `moderate` says that all values are numbers below half of the largest one.
        """
        if self.name == "float64":
            return values
        if values.size == 1:
            return _single(values, self.nearest(values.item()))
        if self.name == "float32" and (moderate or (np.abs(values) <= self.high).all()):
            return values.astype(np.float32).astype(np.float64)
        quantum = self.quantum(values)
        return np.rint(values / quantum) * quantum

    def round_down(self, values: Array) -> Array:
        if self.name == "float64":
            return values
        if values.size == 1:
            return _single(values, self.below(values.item()))
        if self.name == "float32" and (np.abs(values) < self.high / 2).all():
            nearest = values.astype(np.float32)
            exact = nearest.astype(np.float64)
            return np.where(exact > values, np.nextafter(nearest, -_INFINITY), exact)
        quantum = self.quantum(values)
        return np.floor(values / quantum) * quantum

    def round_up(self, values: Array, *, moderate: bool = False) -> Array:
        if self.name == "float64":
            return values
        if values.size == 1:
            return _single(values, self.above(values.item()))
        if self.name == "float32" and (moderate or (np.abs(values) < self.high / 2).all()):
            nearest = values.astype(np.float32)
            exact = nearest.astype(np.float64)
            return np.where(exact < values, np.nextafter(nearest, _INFINITY), exact)
        quantum = self.quantum(values)
        return np.ceil(values / quantum) * quantum

    def nearest(self, value: float) -> float:
        """`round_nearest` of one number; infinities and NaN stay."""
        if value - value != 0.0 or self.digits == 53:
            return value
        quantum = self.quantum_at(value)
        return round(value / quantum) * quantum

    def below(self, value: float) -> float:
        """`round_down` of one number."""
        if value - value != 0.0 or self.digits == 53:
            return value
        quantum = self.quantum_at(value)
        return math.floor(value / quantum) * quantum

    def above(self, value: float) -> float:
        """`round_up` of one number."""
        if value - value != 0.0 or self.digits == 53:
            return value
        quantum = self.quantum_at(value)
        return math.ceil(value / quantum) * quantum

    def __str__(self) -> str:
        return self.name


def _single(like: Array, value: float) -> Array:
    """An array of one element, of the shape of another."""
    made = np.empty(like.shape)
    made.fill(value)
    return made


def _floating(
    name: str,
    onnx_code: int,
    dtype: Any,
    *,
    digits: int,
    least_exponent: int,
    has_infinity: bool = True,
    has_nan: bool = True,
    has_subnormals: bool = True,
) -> Format:
    info = ml_dtypes.finfo(dtype)
    return Format(
        name=name,
        kind="float",
        bits=int(info.bits),
        onnx_code=onnx_code,
        dtype=np.dtype(dtype),
        low=float(info.min),
        high=float(info.max),
        digits=digits,
        least_exponent=least_exponent,
        has_infinity=has_infinity,
        has_nan=has_nan,
        has_subnormals=has_subnormals,
    )


def _integer(name: str, onnx_code: int, dtype: Any, bits: int, *, signed: bool) -> Format:
    low = -(2 ** (bits - 1)) if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    # The largest 64-bit integers are not float64 numbers: the bound is the float64 number just above them.
    return Format(name, "int", bits, onnx_code, np.dtype(dtype), float(low), float(high))


# Codes are the values of onnx.TensorProto.DataType.
FLOAT64 = _floating("float64", 11, np.float64, digits=53, least_exponent=-1022)
FLOAT32 = _floating("float32", 1, np.float32, digits=24, least_exponent=-126)
FLOAT16 = _floating("float16", 10, np.float16, digits=11, least_exponent=-14)
BFLOAT16 = _floating("bfloat16", 16, ml_dtypes.bfloat16, digits=8, least_exponent=-126)
FLOAT8_E4M3FN = _floating("float8_e4m3fn", 17, ml_dtypes.float8_e4m3fn, digits=4, least_exponent=-6, has_infinity=False)
FLOAT8_E4M3FNUZ = _floating("float8_e4m3fnuz", 18, ml_dtypes.float8_e4m3fnuz, digits=4, least_exponent=-7, has_infinity=False)
FLOAT8_E5M2 = _floating("float8_e5m2", 19, ml_dtypes.float8_e5m2, digits=3, least_exponent=-14)
FLOAT8_E5M2FNUZ = _floating("float8_e5m2fnuz", 20, ml_dtypes.float8_e5m2fnuz, digits=3, least_exponent=-15, has_infinity=False)
FLOAT8_E8M0 = _floating(
    "float8_e8m0",
    24,
    ml_dtypes.float8_e8m0fnu,
    digits=1,
    least_exponent=-127,
    has_infinity=False,
    has_subnormals=False,
)
FLOAT4_E2M1 = _floating("float4_e2m1", 23, ml_dtypes.float4_e2m1fn, digits=2, least_exponent=0, has_infinity=False, has_nan=False)
FLOAT6_E2M3 = _floating("float6_e2m3", 27, ml_dtypes.float6_e2m3fn, digits=4, least_exponent=0, has_infinity=False, has_nan=False)
FLOAT6_E3M2 = _floating("float6_e3m2", 28, ml_dtypes.float6_e3m2fn, digits=3, least_exponent=-2, has_infinity=False, has_nan=False)
INT64 = _integer("int64", 7, np.int64, 64, signed=True)
INT32 = _integer("int32", 6, np.int32, 32, signed=True)
INT16 = _integer("int16", 5, np.int16, 16, signed=True)
INT8 = _integer("int8", 3, np.int8, 8, signed=True)
INT4 = _integer("int4", 22, ml_dtypes.int4, 4, signed=True)
INT2 = _integer("int2", 26, ml_dtypes.int2, 2, signed=True)
UINT64 = _integer("uint64", 13, np.uint64, 64, signed=False)
UINT32 = _integer("uint32", 12, np.uint32, 32, signed=False)
UINT16 = _integer("uint16", 4, np.uint16, 16, signed=False)
UINT8 = _integer("uint8", 2, np.uint8, 8, signed=False)
UINT4 = _integer("uint4", 21, ml_dtypes.uint4, 4, signed=False)
UINT2 = _integer("uint2", 25, ml_dtypes.uint2, 2, signed=False)
BOOL = Format("bool", "bool", 8, 9, np.dtype(np.bool_), 0.0, 1.0)
STRING = Format("string", "string", 0, 8, np.dtype(object), 0.0, 0.0)
COMPLEX64 = Format("complex64", "complex", 64, 14, np.dtype(np.complex64), 0.0, 0.0)
COMPLEX128 = Format("complex128", "complex", 128, 15, np.dtype(np.complex128), 0.0, 0.0)

FORMATS: tuple[Format, ...] = (
    FLOAT64,
    FLOAT32,
    FLOAT16,
    BFLOAT16,
    FLOAT8_E4M3FN,
    FLOAT8_E4M3FNUZ,
    FLOAT8_E5M2,
    FLOAT8_E5M2FNUZ,
    FLOAT8_E8M0,
    FLOAT4_E2M1,
    FLOAT6_E2M3,
    FLOAT6_E3M2,
    INT64,
    INT32,
    INT16,
    INT8,
    INT4,
    INT2,
    UINT64,
    UINT32,
    UINT16,
    UINT8,
    UINT4,
    UINT2,
    BOOL,
    STRING,
    COMPLEX64,
    COMPLEX128,
)

BY_NAME = {fmt.name: fmt for fmt in FORMATS}
BY_ONNX_CODE = {fmt.onnx_code: fmt for fmt in FORMATS}
_BY_DTYPE = {fmt.dtype: fmt for fmt in FORMATS if fmt.kind not in ("string",)}


def of_dtype(dtype: np.dtype[Any]) -> Format:
    """The format of a NumPy dtype (ml_dtypes' included); object and text arrays are strings."""
    if dtype.kind in "OUS":
        return STRING
    return _BY_DTYPE[dtype]
