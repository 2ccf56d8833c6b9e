"""Random uses of library functions, as text: what the oracle runs, and what the analysis reads.

A module per family declares generators. Each takes a `Draw` and returns the text of one expression whose value is an array (or
a tuple of them), built of small arrays of random sizes; about a third of what it returns should be refused by the library.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

Generator = Callable[["Draw"], str]
Choice = TypeVar("Choice")


@dataclass(frozen=True, slots=True)
class Case:
    """A generator under the names that it exercises."""

    names: tuple[str, ...]
    generate: Generator
    #: Statements that the expression needs before it (imports are there already).
    setup: str = ""
    #: Whether the analysis may not know what the library computes (sizes that depend on values).
    imprecise: bool = False


#: Names that TensorFlow 2 keeps in `compat.v1` only.
ONLY_IN_TF1 = (
    "random_normal random_uniform truncated_normal random_shuffle random_gamma random_poisson multinomial to_float to_double to_int32 "
    "to_int64 matrix_band_part matrix_diag matrix_diag_part lin_space mod floordiv floor_div div div_no_nan logical_xor realdiv ceil conj "
    "digamma erf is_nan is_inf is_finite lgamma log log1p log_sigmoid reciprocal rint rsqrt expm1 erfc cumprod squared_difference"
)

_CASES: list[Case] = []


def cases(*names: str, setup: str = "", imprecise: bool = False) -> Callable[[Generator], Generator]:
    """Declare a generator; `draw.name` is the name that this expression should use."""

    def declare(generate: Generator) -> Generator:
        _CASES.append(Case(names, generate, setup, imprecise))
        return generate

    return declare


@cache
def all_cases() -> dict[str, Case]:
    """Every generator by the name of the function."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return {name: case for case in _CASES for name in case.names}


def names_of(*functions: Callable[..., object]) -> tuple[str, ...]:
    """All names that rules go by, except those of operators."""
    from tensorproof.shapes.families import load_rules
    from tensorproof.shapes.rule_table import PROPERTIES, RULES

    load_rules()
    return tuple(name for table in (RULES, PROPERTIES) for name, rule in table.items() if rule.function in functions)


class Draw:
    """Random choices for one expression."""

    def __init__(self, name: str, seed: object) -> None:
        #: The canonical name of the function, e.g. `torch.Tensor.sum`.
        self.name = name
        self._random = random.Random(f"{name} {seed}")

    @property
    def short(self) -> str:
        """The last part of the name: `sum`."""
        return self.name.rpartition(".")[2]

    @property
    def is_method(self) -> bool:
        """Whether the name is that of a method of an array."""
        return any(part in self.name for part in (".Tensor.", ".ndarray.", ".Array.", ".KerasTensor."))

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def pick(self, options: Sequence[Choice]) -> Choice:
        return self._random.choice(options)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def shape(self, least: int = 0, most: int = 4, high: int = 5) -> tuple[int, ...]:
        return tuple(self.integer(1, high) for _ in range(self.integer(least, most)))

    def axis(self, rank: int, wrong: float = 0.15) -> int:
        """An axis of an array of that rank, sometimes one that it does not have."""
        if rank == 0 or self.chance(wrong):
            return self.pick([rank, rank + 1, -rank - 1])
        return self.integer(-rank, rank - 1)

    def varied(self, shape: Sequence[int], probability: float = 0.3) -> tuple[int, ...]:
        """The shape, or one that differs in a size or in its rank."""
        result = list(shape)
        if self.chance(probability):
            change = self.integer(0, 2)
            if change == 0 and result:
                result[self.integer(0, len(result) - 1)] = self.integer(1, 5)
            elif change == 1 and result:
                result.pop(self.integer(0, len(result) - 1))
            else:
                result.insert(self.integer(0, len(result)), self.integer(1, 5))
        return tuple(result)

    def elements(self, shape: Sequence[int]) -> int:
        """How many elements an array of that shape has, or (one time in three) another number."""
        return math.prod(shape) + (self.chance(0.35) and self.integer(1, 3))

    def array(self, shape: Sequence[int]) -> str:
        """An array of zeros in the library that the name belongs to."""
        return self.array_of(shape)

    def array_of(self, shape: Sequence[int], dtype: str = "") -> str:
        """An array of zeros of a number type, by its name in NumPy."""
        size = "(" + "".join(f"{part}, " for part in shape) + ")"
        library = self.name.partition(".")[0]
        maker = {
            "torch": "torch.zeros", "numpy": "np.zeros", "tf": "tf.zeros", "jax": "jnp.zeros", "keras": "keras.ops.zeros", "scipy": "np.zeros",
        }[library]  # fmt: skip
        kind = f"torch.{dtype}" if library == "torch" else repr(dtype)
        return f"{maker}({size}, dtype={kind})" if dtype else f"{maker}({size})"

    def call(self, first: str, *others: str) -> str:
        """The function on these arguments, or the method of the first of them. Names of TensorFlow 1 are looked up there."""
        if self.is_method:
            return f"{first}.{self.short}({', '.join(others)})"
        library, _, rest = self.name.partition(".")
        prefix = {"numpy": "np", "tf": "tf.compat.v1" if rest in ONLY_IN_TF1.split() else "tf"}.get(library, library)
        return f"{prefix}.{rest}({', '.join(part for part in (first, *others) if part)})"
