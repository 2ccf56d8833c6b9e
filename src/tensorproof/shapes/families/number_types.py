"""Number types: their constants in all libraries, casts, and moves between devices and libraries."""

from __future__ import annotations

from dataclasses import replace

from tensorproof.shapes.families.broadcasting import framework_of_result
from tensorproof.shapes.families.names import short_name, spelled
from tensorproof.shapes.rule_table import Call, declare_constants, native_class, shape_rule
from tensorproof.shapes.values import Builtin, DType, Framework, Library, Tensor, Value

_TYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int16": "i16", "int32": "i32",
    "int64": "i64", "uint8": "u8", "complex64": "c64", "complex128": "c128",
}  # fmt: skip
_TORCH_TYPES = {
    "float": "f32", "double": "f64", "half": "f16", "int": "i32", "long": "i64", "short": "i16", "bool": "bool", "cfloat": "c64",
    "cdouble": "c128",
}  # fmt: skip
_NUMPY_TYPES = {
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool_": "bool", "float_": "f64", "int_": "i64", "intp": "i64",
    "single": "f32", "double": "f64", "half": "f16", "longlong": "i64", "bool": "bool", "integer": "", "floating": "",
}  # fmt: skip
_TF_TYPES = {"bool": "bool", "string": "", "half": "f16", "double": "f64", "uint16": "u16", "uint32": "u32", "uint64": "u64"}
_TORCH_TENSOR_TYPES = {
    "FloatTensor": "f32", "DoubleTensor": "f64", "HalfTensor": "f16", "LongTensor": "i64", "IntTensor": "i32", "ByteTensor": "u8",
    "BoolTensor": "bool",
}  # fmt: skip

declare_constants(
    {f"{library}.{name}": DType(short) for library in ("torch", "numpy", "jax.numpy", "tf") for name, short in _TYPES.items()}
    | {f"torch.{name}": DType(short) for name, short in _TORCH_TYPES.items()}
    | {f"{library}.{name}": DType(short) for library in ("numpy", "jax.numpy") for name, short in _NUMPY_TYPES.items()}
    | {f"tf.{name}": DType(short) for name, short in _TF_TYPES.items()}
    | {f"{library}.newaxis": None for library in ("numpy", "jax.numpy", "tf")}
    | {f"{library}.pi": 3.141592653589793 for library in ("numpy", "jax.numpy", "torch", "math")}
    | {f"{library}.e": 2.718281828459045 for library in ("numpy", "jax.numpy", "torch", "math")}
    | {f"{library}.{name}": float(name) for library in ("numpy", "jax.numpy", "torch", "math") for name in ("inf", "nan")}
    | {f"torch.{name}": Library(f"torch.{name}") for name in ("strided", "contiguous_format", "channels_last", "preserve_format")}
)

_NAMES = {**_NUMPY_TYPES, **_TORCH_TYPES, **_TYPES}


def dtype_name(dtype: Value, default: str = "") -> str:
    """The short name of a number type, however it is written: a constant, a string, Python's own type."""
    if dtype is None:
        return default
    if isinstance(dtype, DType):
        return dtype.name
    if isinstance(dtype, str):
        return _NAMES.get(dtype.rpartition(".")[2], _TORCH_TENSOR_TYPES.get(dtype.rpartition(".")[2], ""))
    if isinstance(dtype, Builtin):
        return {"float": "f64", "int": "i64", "bool": "bool", "complex": "c128"}.get(dtype.name, "")
    if isinstance(dtype, Library):
        return _TORCH_TENSOR_TYPES.get(dtype.path.rpartition(".")[2], "")
    return ""


def recast(tensor: Tensor, dtype: str, framework: Framework | None = None) -> Tensor:
    """The same elements as another number type, maybe in another library. What is known of the content stays."""
    return replace(tensor, dtype=dtype, framework=framework or tensor.framework, kind="", recipe=None)


# -- casts ------------------------------------------------------------------------------------------------------------


@shape_rule(*spelled("torch.Tensor", "float double half bfloat16 int long short byte char bool cfloat"))
def torch_cast(call: Call, input: Tensor, memory_format: Value = None) -> Tensor:
    """A cast by name."""
    name = short_name(call.name)
    return recast(input, {"byte": "u8", "char": "i8", "bfloat16": "bf16"}.get(name, _TORCH_TYPES.get(name, "")))


@shape_rule(*spelled("torch.Tensor", "cuda cpu clone detach"), *spelled("torch", "clone detach"))
def torch_moved(call: Call, input: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """A copy elsewhere, or one without its graph."""
    return recast(input, input.dtype)


@shape_rule("torch.Tensor.to")
def torch_to(call: Call, input: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """A device, a number type, another tensor, or some of them in any order."""
    for option in (*options, keywords.get("dtype")):
        if isinstance(option, DType):
            return recast(input, option.name)
        if isinstance(option, Tensor):
            return recast(input, option.dtype)
    return recast(input, input.dtype)


@shape_rule("torch.Tensor.type")
def torch_type(call: Call, input: Tensor, dtype: Value = None, non_blocking: Value = False) -> Value:
    """A cast, or (without arguments) the name of the type."""
    return "torch.FloatTensor" if dtype is None else recast(input, dtype_name(dtype))


@shape_rule("torch.Tensor.type_as")
def torch_type_as(call: Call, input: Tensor, other: Tensor) -> Tensor:
    """A cast to the type of another tensor."""
    return recast(input, other.dtype)


@shape_rule(*spelled("numpy.ndarray jax.Array", "astype"))
def numpy_astype(call: Call, a: Tensor, dtype: Value, *options: Value, **keywords: Value) -> Tensor:
    """A cast."""
    return recast(a, dtype_name(dtype))


@shape_rule("numpy.astype", "jax.numpy.astype")
def numpy_astype_function(call: Call, x: Tensor, dtype: Value, **keywords: Value) -> Tensor:
    """A cast as a function."""
    return recast(x, dtype_name(dtype), framework_of_result(call, x))


@shape_rule("tf.cast", "tf.bitcast", "tf.saturate_cast")
def tf_cast(call: Call, x: Tensor, dtype: Value, name: Value = None) -> Tensor:
    """A cast."""
    return recast(x, dtype_name(dtype), "tf")


@shape_rule(*spelled("tf", "to_float to_double to_int32 to_int64"))
def tf_old_cast(call: Call, x: Tensor, name: Value = None) -> Tensor:
    """A cast by name, in TensorFlow 1."""
    names = {"to_float": "f32", "to_double": "f64", "to_int32": "i32", "to_int64": "i64"}
    return recast(x, names[short_name(call.name)], "tf")


@shape_rule("keras.ops.cast")
def keras_cast(call: Call, x: Tensor, dtype: Value) -> Tensor:
    """A cast."""
    return recast(x, dtype_name(dtype), "keras")


# -- between libraries ------------------------------------------------------------------------------------------------


@shape_rule(*spelled("torch.Tensor tf.Tensor keras.KerasTensor", "numpy"), "keras.ops.convert_to_numpy")
def to_numpy(call: Call, input: Tensor, **options: Value) -> Tensor:
    """As an array of NumPy."""
    return recast(input, input.dtype, "numpy")


@shape_rule("jax.device_put", "jax.device_get")
def jax_moved(call: Call, x: Value, *options: Value, **keywords: Value) -> Value:
    """On another device; trees of arrays stay what they are."""
    if not isinstance(x, Tensor):
        return x
    return recast(x, x.dtype, "numpy" if call.name.endswith("get") else "jax")


@shape_rule(*spelled("numpy jax.numpy", "promote_types result_type"), *spelled("torch", "promote_types result_type"))
def promoted(*types: Value) -> Value:
    """The common number type: not needed."""
    return DType("")


# -- limits -----------------------------------------------------------------------------------------------------------

_LIMITS = {"f16": (65504.0, 2.0**-10), "bf16": (3.3895313892515355e38, 2.0**-7), "f64": (1.7976931348623157e308, 2.0**-52)}


@native_class("torch.finfo", "numpy.finfo", "jax.numpy.finfo")
class FloatLimits:
    """The limits of a float type; those of single precision if it is not known."""

    dtype: Value = None

    @property
    def _limits(self) -> tuple[float, float]:
        return _LIMITS.get(dtype_name(self.dtype), (3.4028234663852886e38, 2.0**-23))

    @property
    def max(self) -> float:
        return self._limits[0]

    @property
    def min(self) -> float:
        return -self._limits[0]

    @property
    def eps(self) -> float:
        return self._limits[1]

    @property
    def tiny(self) -> float:
        return 6.103515625e-05 if dtype_name(self.dtype) == "f16" else 1.1754943508222875e-38

    smallest_normal = tiny


@native_class("torch.iinfo", "numpy.iinfo", "jax.numpy.iinfo")
class IntegerLimits:
    """The limits of an integer type; those of 64 bits if it is not known."""

    type: Value = None

    @property
    def _bits(self) -> int:
        digits = dtype_name(self.type).lstrip("iu")
        return int(digits) if digits.isdigit() else 64

    @property
    def max(self) -> int:
        return 2**self._bits - 1 if dtype_name(self.type).startswith("u") else 2 ** (self._bits - 1) - 1

    @property
    def min(self) -> int:
        return 0 if dtype_name(self.type).startswith("u") else -(2 ** (self._bits - 1))
