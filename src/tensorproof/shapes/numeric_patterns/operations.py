"""How a value was computed, in one vocabulary for all libraries: `Operation`, read from the recipes of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.problems import Place
from tensorproof.shapes.values import Recipe, Tensor, Value

if TYPE_CHECKING:
    from tensorproof.shapes.run import Run

_LIBRARIES = "torch numpy tf keras jax"
_ARRAYS = "numpy numpy.ndarray jax.numpy jax.Array"


def _operators(name: str) -> tuple[str, ...]:
    return spelled(_LIBRARIES, f"__{name}__ __i{name}__")


_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "log": spelled("torch torch.Tensor numpy jax.numpy jax.lax tf tf.math keras.ops", "log"),
    "exp": spelled("torch torch.Tensor numpy jax.numpy jax.lax tf tf.math keras.ops", "exp"),
    "sqrt": spelled("torch torch.Tensor numpy jax.numpy jax.lax tf tf.math keras.ops", "sqrt"),
    "square": spelled("torch torch.Tensor numpy jax.numpy jax.lax tf tf.math keras.ops", "square"),
    "squared difference": spelled("tf tf.math", "squared_difference")
    + ("torch.nn.functional.mse_loss", "torch.nn.MSELoss", "keras.losses.MeanSquaredError", "keras.losses.mean_squared_error"),
    "norm": ("jax.numpy.linalg.norm", "tf.norm", "tf.linalg.norm"),
    "sigmoid": (
        *spelled("torch torch.Tensor torch.nn.functional tf tf.math tf.nn jax.nn keras.ops keras.activations", "sigmoid"),
        *spelled("torch.special scipy.special jax.scipy.special", "expit"),
        "jax.lax.logistic",
        "torch.nn.Sigmoid",
    ),
    "softmax": (
        *spelled("torch torch.Tensor torch.special torch.nn.functional tf.nn tf.math jax.nn scipy.special", "softmax"),
        *spelled("keras.ops keras.activations", "softmax"),
        "torch.nn.Softmax",
        "keras.layers.Softmax",
    ),
    "add": _operators("add") + spelled("torch torch.Tensor numpy jax.numpy tf tf.math keras.ops", "add"),
    "subtract": _operators("sub") + spelled("torch torch.Tensor numpy jax.numpy tf tf.math keras.ops", "subtract sub"),
    "multiply": _operators("mul") + spelled("torch torch.Tensor numpy jax.numpy tf tf.math keras.ops", "multiply mul"),
    "divide": _operators("truediv") + spelled("torch torch.Tensor numpy jax.numpy tf tf.math keras.ops", "divide div true_divide"),
    "power": _operators("pow") + spelled("torch torch.Tensor numpy jax.numpy tf tf.math keras.ops", "pow power"),
    "matrix product": (
        *_operators("matmul"),
        *spelled("torch torch.Tensor", "matmul bmm mm"),
        *spelled("torch", "einsum baddbmm"),
        "torch.nn.functional.linear",
        "torch.nn.Linear",
    ),
    "negative": spelled(_LIBRARIES, "__neg__")
    + spelled("torch torch.Tensor numpy jax.numpy jax.lax tf tf.math keras.ops", "neg negative"),
    "sum": spelled(f"torch torch.Tensor {_ARRAYS} keras.ops", "sum") + spelled("tf tf.math", "reduce_sum"),
    "mean": spelled(f"torch torch.Tensor {_ARRAYS} keras.ops", "mean") + spelled("tf tf.math", "reduce_mean"),
    "minimum": spelled("torch torch.Tensor numpy jax.numpy tf tf.math keras.ops", "minimum"),
    "clip": (
        *spelled(f"torch torch.Tensor {_ARRAYS} keras.ops", "clip"),
        *spelled("torch torch.Tensor", "clamp"),
        *spelled("torch.Tensor", "clip_ clamp_"),
        "tf.clip_by_value",
    ),
    "where": spelled("torch torch.Tensor numpy jax.numpy tf keras.ops", "where"),
    "fill": spelled("torch torch.Tensor", "masked_fill masked_fill_"),
    "cast": (
        *spelled("torch.Tensor", "float double half bfloat16 to type type_as"),
        *spelled("numpy.ndarray jax.Array numpy jax.numpy", "astype"),
        *spelled("tf", "cast to_float to_double"),
        *spelled("keras.ops keras.backend", "cast"),
    ),
    "part": (
        *spelled(_LIBRARIES, "__getitem__"),
        *spelled("torch torch.Tensor", "gather squeeze unsqueeze select take take_along_dim"),
        *spelled("numpy jax.numpy", "take take_along_axis squeeze expand_dims"),
        *spelled("tf", "gather gather_nd squeeze expand_dims"),
        *spelled("keras.ops", "take take_along_axis squeeze expand_dims"),
    ),
    "view": (
        *spelled("torch torch.Tensor", "reshape flatten transpose permute"),
        *spelled("torch.Tensor", "view clone contiguous cpu cuda numpy T"),
        *spelled(f"{_ARRAYS} tf keras.ops", "reshape transpose ravel flatten"),
    ),
    # Whole numbers by nature, in whatever type they are held.
    "whole numbers": (
        *spelled("torch numpy jax.numpy tf keras.ops", "zeros ones arange range bincount eye one_hot zeros_like ones_like"),
        *spelled("torch.nn.functional jax.nn", "one_hot"),
        *spelled("torch numpy tf.random torch.random numpy.random jax.random", "randint poisson"),
    ),
    # Gradients end here.
    "constant": (
        *spelled("torch torch.Tensor", "detach"),
        "torch.Tensor.data",
        *spelled("tf jax.lax keras.ops", "stop_gradient"),
    ),
    "backward": (
        "torch.Tensor.backward",
        *(
            f"tf.train.{name}Optimizer.{method}"
            for name in (
                *("GradientDescent", "Adam", "Adagrad", "Adadelta", "Momentum", "RMSProp", "Ftrl"),
                *("ProximalAdagrad", "ProximalGradientDescent"),
            )
            for method in ("minimize", "compute_gradients")
        ),
    ),
    "gradient": ("tf.GradientTape.gradient", "tf.gradients"),
}

#: What the function of a name does, in one word.
KINDS: Mapping[str, str] = {name: kind for kind, names in _SPELLINGS.items() for name in names}


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a computation: what it does, to what, and where it is written."""

    kind: str
    name: str
    operands: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    place: Place

    @property
    def operand(self) -> Value:
        """What it is applied to, if that was not passed by name."""
        return self.operands[0] if self.operands else None

    @property
    def pair(self) -> tuple[Value, Value] | None:
        """Both operands of an operation that has two."""
        return (self.operands[0], self.operands[1]) if len(self.operands) >= 2 and not self.keywords else None

    @property
    def library(self) -> str:
        return self.name.partition(".")[0]

    @property
    def is_method(self) -> bool:
        """Whether it is written as a method of its first operand."""
        return self.name.startswith(("torch.Tensor.", "numpy.ndarray.", "jax.Array.", "tf.Tensor.", "keras.KerasTensor."))

    @staticmethod
    def of_recipe(recipe: Recipe) -> Operation | None:
        """The operation of a recipe, if it is one that a pattern knows."""
        name = recipe.name.removesuffix(".__call__")
        kind = KINDS.get(name)
        return None if kind is None else Operation(kind, name, recipe.arguments, recipe.keywords, recipe.place)


def operation_of(run: Run, value: Value) -> Operation | None:
    """What computed a tensor; None if that is not known, or if the tensor was changed since."""
    if not isinstance(value, Tensor) or value.recipe is None or run.was_changed(value):
        return None
    return Operation.of_recipe(value.recipe)


def operation_of_kind(run: Run, value: Value, kind: str) -> Operation | None:
    """What computed a tensor, if it was an operation of that kind."""
    operation = operation_of(run, value)
    return operation if operation is not None and operation.kind == kind else None


def is_number(value: Value, number: float) -> bool:
    """Whether a value is that number, written as one."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == number


def beside(pair: tuple[Value, Value] | None, number: float) -> Tensor | None:
    """The tensor of a pair whose other operand is the number."""
    for value, other in ((pair[0], pair[1]), (pair[1], pair[0])) if pair is not None else ():
        if isinstance(value, Tensor) and is_number(other, number):
            return value
    return None


def squared(run: Run, value: Value) -> Tensor | None:
    """What a tensor is the square of, element by element."""
    operation = operation_of(run, value)
    if operation is None:
        return None
    base: Value = None
    if operation.kind == "square":
        base = operation.operand
    elif operation.pair is not None:
        left, right = operation.pair
        is_square = (operation.kind == "power" and is_number(right, 2)) or (operation.kind == "multiply" and left is right)
        base = left if is_square else None
    return base if isinstance(base, Tensor) else None


#: Functions of numbers with fractions, whatever they are applied to.
_FRACTIONS = frozenset({"log", "exp", "sqrt", "sigmoid", "softmax"})
#: Operations whose results are whole numbers if all operands are.
_KEEPS_WHOLE = frozenset({"cast", "sum", "add", "subtract", "multiply", "negative", "part", "view"})


def has_fractions(run: Run, value: Value, depth: int = 8) -> bool:
    """Whether a tensor holds more than whole numbers, as far as its type and its origin tell."""
    if isinstance(value, float):
        return not value.is_integer()
    if not isinstance(value, Tensor) or run.was_changed(value) or depth == 0:
        return False
    if value.dtype and not value.dtype.startswith(("f", "bf")):
        return False
    operation = operation_of(run, value)
    if operation is None:
        return bool(value.dtype)
    if operation.kind in _KEEPS_WHOLE:
        return any(has_fractions(run, operand, depth - 1) for operand in operation.operands)
    return operation.kind in _FRACTIONS or (bool(value.dtype) and operation.kind != "whole numbers")
