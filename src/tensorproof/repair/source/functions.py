"""The functions of tensor libraries that patterns are made of: what each is called, and in what order it takes its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Library = Literal["torch", "tensorflow", "jax", "numpy"]

#: Where the functions of a library live; the first is that of its tensors.
_MODULES: dict[Library, tuple[str, ...]] = {
    "torch": ("torch", "torch.special", "torch.nn.functional"),
    "tensorflow": ("tensorflow", "tensorflow.math", "tensorflow.nn"),
    "jax": ("jax.numpy", "jax.nn", "jax.lax"),
    "numpy": ("numpy",),
}

#: The names that libraries give to one argument.
_SYNONYMS = {
    **dict.fromkeys(("input", "x", "logits", "features", "a", "input_tensor", "tensor", "self", "t", "arr"), "x"),
    **dict.fromkeys(("dim", "axis", "axes", "reduction_indices"), "axis"),
    **dict.fromkeys(("keepdim", "keepdims", "keep_dims"), "keepdims"),
    **dict.fromkeys(("min", "a_min", "clip_value_min"), "min"),
    **dict.fromkeys(("max", "a_max", "clip_value_max"), "max"),
    **dict.fromkeys(("other", "y"), "y"),
}


@dataclass(frozen=True, slots=True)
class Function:
    """A function by the name that it has here, whatever its library calls it, with its parameters in order."""

    operation: str
    library: Library
    parameters: tuple[str, ...]


def argument_name(keyword: str) -> str:
    """The name by which patterns know an argument."""
    return _SYNONYMS.get(keyword, keyword)


#: Functions that every library has under the same name, of one element each.
_ELEMENTWISE = (
    *("log", "log1p", "log2", "log10", "exp", "exp2", "expm1", "sqrt", "rsqrt", "sigmoid", "abs", "square", "relu", "softplus"),
    *("acos", "asin", "atanh", "acosh", "sinh", "cosh", "tan", "reciprocal"),
)
_REDUCTIONS = ("sum", "mean", "std", "var")
_BINARY = {
    **dict.fromkeys(("add",), "add"),
    **dict.fromkeys(("sub", "subtract"), "subtract"),
    **dict.fromkeys(("mul", "multiply"), "multiply"),
    **dict.fromkeys(("div", "divide", "true_divide", "truediv"), "divide"),
    **dict.fromkeys(("pow", "power"), "power"),
}
#: Functions whose name, or whose order of arguments, is a library's own.
_OWN: dict[Library, dict[str, tuple[str, ...]]] = {
    "torch": {
        "torch.softmax": ("softmax", "x", "axis", "dtype"),
        "torch.special.softmax": ("softmax", "x", "axis", "dtype"),
        "torch.nn.functional.softmax": ("softmax", "x", "axis", "_stacklevel", "dtype"),
        "torch.special.expit": ("sigmoid", "x"),
        "torch.norm": ("norm", "x", "p", "axis", "keepdims"),
        "torch.linalg.norm": ("norm", "x", "ord", "axis", "keepdims"),
        "torch.linalg.vector_norm": ("norm", "x", "ord", "axis", "keepdims"),
        "torch.clamp": ("clamp", "x", "min", "max"),
        "torch.clip": ("clamp", "x", "min", "max"),
        "torch.clamp_min": ("clamp", "x", "min"),
        "torch.maximum": ("maximum", "x", "y"),
        "torch.masked_fill": ("masked_fill", "x", "mask", "value"),
        "torch.where": ("where", "condition", "x", "y"),
        "torch.neg": ("negative", "x"),
        "torch.arccos": ("acos", "x"),
        "torch.arcsin": ("asin", "x"),
        "torch.arctanh": ("atanh", "x"),
        "torch.arccosh": ("acosh", "x"),
    },
    "tensorflow": {
        "tensorflow.nn.softmax": ("softmax", "x", "axis", "name"),
        "tensorflow.norm": ("norm", "x", "ord", "axis", "keepdims"),
        "tensorflow.linalg.norm": ("norm", "x", "ord", "axis", "keepdims"),
        "tensorflow.clip_by_value": ("clamp", "x", "min", "max"),
        "tensorflow.maximum": ("maximum", "x", "y"),
        "tensorflow.math.maximum": ("maximum", "x", "y"),
        "tensorflow.where": ("where", "condition", "x", "y"),
        "tensorflow.negative": ("negative", "x"),
        "tensorflow.math.negative": ("negative", "x"),
    },
    "jax": {
        "jax.nn.softmax": ("softmax", "x", "axis", "where", "initial"),
        "jax.lax.logistic": ("sigmoid", "x"),
        "jax.scipy.special.expit": ("sigmoid", "x"),
        "jax.numpy.linalg.norm": ("norm", "x", "ord", "axis", "keepdims"),
        "jax.numpy.clip": ("clamp", "x", "min", "max"),
        "jax.numpy.maximum": ("maximum", "x", "y"),
        "jax.numpy.where": ("where", "condition", "x", "y"),
        "jax.numpy.negative": ("negative", "x"),
    },
    "numpy": {
        "numpy.linalg.norm": ("norm", "x", "ord", "axis", "keepdims"),
        "numpy.clip": ("clamp", "x", "min", "max"),
        "numpy.maximum": ("maximum", "x", "y"),
        "numpy.where": ("where", "condition", "x", "y"),
        "numpy.negative": ("negative", "x"),
    },
}


def _reduction_parameters(library: Library) -> tuple[str, ...]:
    return ("x", "axis", "dtype", "out", "keepdims") if library in ("jax", "numpy") else ("x", "axis", "keepdims")


def _functions() -> dict[str, Function]:
    table: dict[str, Function] = {}
    for library, modules in _MODULES.items():
        for module in modules:
            for name in _ELEMENTWISE:
                table[f"{module}.{name}"] = Function(name, library, ("x",))
            for name, operation in _BINARY.items():
                table[f"{module}.{name}"] = Function(operation, library, ("x", "y"))
            for name in _REDUCTIONS:
                spelled = f"reduce_{name.replace('var', 'variance')}" if library == "tensorflow" else name
                table[f"{module}.{spelled}"] = Function(name, library, _reduction_parameters(library))
        for qualified, (operation, *parameters) in _OWN[library].items():
            table[qualified] = Function(operation, library, tuple(parameters))
    return table


#: Functions by their full names. Some of the names are no function of their library: no program that runs uses them.
FUNCTIONS = _functions()

#: Methods of tensors: those of torch, and of the arrays of JAX and NumPy.
METHODS: dict[Library, dict[str, Function]] = {
    "torch": {
        name.removeprefix("torch."): function
        for name, function in FUNCTIONS.items()
        if name.startswith("torch.") and name.count(".") == 1 and function.operation != "where"
    },
    "jax": {name: Function(name, "jax", _reduction_parameters("jax")) for name in _REDUCTIONS},
    "numpy": {name: Function(name, "numpy", _reduction_parameters("numpy")) for name in _REDUCTIONS},
    "tensorflow": {},
}
METHODS["torch"]["masked_fill_"] = METHODS["torch"]["masked_fill"]
METHODS["jax"]["clip"] = Function("clamp", "jax", ("x", "min", "max"))
METHODS["numpy"]["clip"] = Function("clamp", "numpy", ("x", "min", "max"))
