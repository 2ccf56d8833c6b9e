"""What a function of JAX is called with: its arguments taken apart into arrays with names, and put together again.

Arrays in containers are named by their place in them: `params['layer'][0]['w']`. Arguments with one of the names of `WEIGHTS` are
the weights of the program: their numbers are those of the example, and `--weights` says what else they may be. Every other array,
and every floating number, is an input. Whole numbers, truth values and text of Python are fixed: programs compute shapes with them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import AssumptionError, ConfigurationError, ModelError
from tensorproof.formats import BY_NAME
from tensorproof.frontends.input_declarations import InputDeclaration
from tensorproof.frontends.jax_jaxpr import is_key
from tensorproof.frontends.user_program import INPUTS_FUNCTION

#: Arguments of these names hold the weights of a program.
WEIGHTS = frozenset({"params", "parameters", "weights", "variables"})


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array or a number in the arguments of a function."""

    name: str
    value: Any
    is_weight: bool

    @property
    def is_key(self) -> bool:
        """Whether it is a key of a random generator."""
        return is_key(self.value)

    @property
    def is_floating(self) -> bool:
        """Whether it is a floating array or number."""
        format = None if self.is_key else BY_NAME.get(str(np.result_type(self.value)))
        return format is not None and format.is_float

    def numbers(self) -> npt.NDArray[Any]:
        """Its numbers as JAX holds them."""
        import jax

        return np.asarray(jax.numpy.asarray(self.value))


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments by position and by name as arrays (`leaves`) between what is fixed."""

    leaves: tuple[Leaf, ...]
    _structure: Any
    #: Everything in the containers in order; None stands for the next leaf.
    _fixed: tuple[tuple[Any] | None, ...]

    @classmethod
    def of(cls, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        """Take arguments apart; `names` are those of the arguments by position."""
        import jax

        found, structure = jax.tree_util.tree_flatten_with_path((tuple(args), dict(kwargs)), is_leaf=lambda item: item is None)
        leaves: list[Leaf] = []
        fixed: list[tuple[Any] | None] = []
        for path, value in found:
            if not _is_array(value):
                fixed.append((value,))
                continue
            argument = str(names[path[1].idx] if path[0].idx == 0 else path[1].key)
            leaves.append(Leaf(argument + jax.tree_util.keystr(path[2:]), value, argument in WEIGHTS))
            fixed.append(None)
        return cls(tuple(leaves), structure, tuple(fixed))

    def rebuilt(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other arrays in place of the leaves."""
        import jax

        given = iter(arrays)
        return jax.tree_util.tree_unflatten(self._structure, [next(given) if item is None else item[0] for item in self._fixed])

    def converted(self, precision: str) -> Arguments:
        """The same with floating arrays in another format."""
        import jax

        format = BY_NAME.get(precision)
        if format is None or not format.is_float:
            raise ConfigurationError(f"--precision {precision!r}: JAX has no such floating format")
        leaves = tuple(
            Leaf(leaf.name, jax.numpy.asarray(leaf.value).astype(format.dtype), leaf.is_weight) if leaf.is_floating else leaf
            for leaf in self.leaves
        )
        return Arguments(leaves, self._structure, self._fixed)


def _is_array(value: Any) -> bool:
    import jax

    return isinstance(value, jax.Array | np.ndarray | np.generic) or type(value) is float


def arguments_of(
    function: Any, name: str, example: Any, declared: Mapping[str, InputDeclaration], dims: Mapping[str, tuple[int, int]]
) -> Arguments:
    """What a function is called with: the example, and for what it leaves out arrays as declared."""
    parameters = _parameters(function, name)
    args, kwargs = _given(example, parameters)
    named = dict(zip(parameters, args)) | kwargs
    for key, declaration in declared.items():
        if key in parameters and key not in named and declaration.shape is not None:
            named[key] = declaration.array(dims)
    if len(args) > len(parameters):
        return Arguments.of([*parameters, *(f"args_{i}" for i in range(len(args) - len(parameters)))], args, kwargs)
    missing = [key for key, parameter in parameters.items() if key not in named and parameter.default is inspect.Parameter.empty]
    if missing:
        raise AssumptionError(
            f"{name}: nothing is known about its input {missing[0]!r}; declare it in the file"
            f" (# tensorproof: {missing[0]} = float32[4,8] in [0,1]), or write a function {INPUTS_FUNCTION}()"
        )
    # By position as far as that goes: transformations of JAX count positions.
    positional: list[str] = []
    for key, parameter in parameters.items():
        if key not in named or parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            break
        positional.append(key)
    rest = {key: value for key, value in named.items() if key not in positional}
    return Arguments.of(positional, [named[key] for key in positional], rest)


def _parameters(function: Any, name: str) -> dict[str, inspect.Parameter]:
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise ModelError(f"{name}: is {type(function).__name__}, not a function with parameters") from None
    found = {key: parameter for key, parameter in signature.parameters.items() if parameter.kind not in variable}
    if not signature.parameters:
        raise ModelError(f"{name}: takes no inputs")
    return found


def _given(example: Any, parameters: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """An example as arguments: a tuple of them, a dictionary of them by name, or the only one."""
    if example is None:
        return (), {}
    if isinstance(example, Mapping) and all(key in parameters for key in example):
        return (), {str(key): value for key, value in example.items()}
    if isinstance(example, tuple | list) and not hasattr(example, "_fields"):
        return tuple(example), {}
    return (example,), {}
