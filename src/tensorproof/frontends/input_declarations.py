"""What a program's inputs are, in a few words: `x = float32[N,3,32,32] in [0,1]`.

Such a declaration stands in a comment of the program (`# tensorproof: x = float32[N,3,32,32] in [0,1]`), in the configuration
or on the command line. Format and shape may be left out where an example tensor says them, the range where the default is
meant. A name in the shape is a symbolic dimension. `Net.x = ...` speaks of the input of one class or function alone.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.assumptions import DEFAULT_REACH, DEFAULT_SIZE, Domain, parse_domain
from tensorproof.errors import AssumptionError
from tensorproof.formats import BY_NAME, Format

if TYPE_CHECKING:
    from torch import Tensor

#: The size of a symbolic leading dimension in an example: torch's export takes sizes of 0 and 1 for fixed.
EXAMPLE_BATCH = 2

_COMMENT = re.compile(r"#\s*tensorproof:\s*(?P<text>.*)$")
_DECLARATION = re.compile(
    r"""(?:(?P<owner>\w+)\.)?(?P<name>\w+)\s*
        (?:=\s*(?P<format>\w+)\s*\[(?P<shape>[^\]]*)\]\s*)?
        (?:in\s+(?P<domain>.+))?$""",
    re.VERBOSE,
)
#: Comments of other meaning.
_OTHER = re.compile(r"(ignore|noqa|off|on)\b")


@dataclass(frozen=True, slots=True)
class InputDeclaration:
    """What is declared about one input; None for what is not."""

    name: str
    owner: str | None = None
    format: Format | None = None
    shape: tuple[int | str, ...] | None = None
    domain: Domain | None = None

    def sizes(self, dims: Mapping[str, tuple[int, int]]) -> tuple[int, ...]:
        """The shape of an example: symbolic dimensions get the declared size, if that is one that an export keeps open."""
        assert self.shape is not None
        found: list[int] = []
        for axis, size in enumerate(self.shape):
            default = EXAMPLE_BATCH if axis == 0 else DEFAULT_SIZE
            found.append(size if isinstance(size, int) else max(dims.get(size, (default, default))[0], EXAMPLE_BATCH))
        return tuple(found)

    def example(self, dims: Mapping[str, tuple[int, int]], seed: int = 0) -> Tensor:
        """A tensor of the declared format, shape and range, the same one every time."""
        import torch

        if self.shape is None or self.format is None:
            raise AssumptionError(f"input {self.name!r}: its format and shape are not declared; write {self.name} = float32[...]")
        generator = torch.Generator().manual_seed(seed)
        dtype = getattr(torch, self.format.name)
        low, high = (-1.0, 1.0) if self.domain is None else (self.domain.low, self.domain.high)
        low, high = max(low, -DEFAULT_REACH), min(high, DEFAULT_REACH)
        low, high = (low, high) if low <= high else (high, high)
        shape = self.sizes(dims)
        if self.format.kind == "bool":
            return torch.ones(shape, dtype=dtype)
        if self.format.is_integer:
            first = 0 if self.domain is None else round(low)
            return torch.randint(first, max(round(high), first) + 1, shape, generator=generator).to(dtype)
        return (torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(dtype)

    def array(self, dims: Mapping[str, tuple[int, int]], seed: int = 0) -> npt.NDArray[Any]:
        """The same as an array of NumPy, for frameworks that take those."""
        if self.shape is None or self.format is None:
            raise AssumptionError(f"input {self.name!r}: its format and shape are not declared; write {self.name} = float32[...]")
        generator = np.random.default_rng(seed)
        low, high = (-1.0, 1.0) if self.domain is None else (self.domain.low, self.domain.high)
        low, high = max(low, -DEFAULT_REACH), min(high, DEFAULT_REACH)
        low, high = (low, high) if low <= high else (high, high)
        shape = self.sizes(dims)
        if self.format.kind == "bool":
            return np.ones(shape, self.format.dtype)
        if self.format.is_integer:
            first = 0 if self.domain is None else round(low)
            return generator.integers(first, max(round(high), first) + 1, shape).astype(self.format.dtype)
        return np.asarray(generator.random(shape) * (high - low) + low).astype(self.format.dtype)

    def symbolic(self) -> dict[int, str]:
        """The names of symbolic dimensions by axis."""
        return {axis: size for axis, size in enumerate(self.shape or ()) if isinstance(size, str)}


def parse_declaration(text: str, where: str) -> InputDeclaration:
    """One declaration; `where` is what an error names."""
    match = _DECLARATION.fullmatch(text.strip())
    if match is None or (match["format"] is None and match["domain"] is None):
        raise AssumptionError(f"{where}: {text.strip()!r} is no declaration; write x = float32[N,3,32,32] in [0,1]")
    format = None
    if match["format"] is not None:
        format = BY_NAME.get(match["format"])
        if format is None or format.kind not in ("float", "int", "bool"):
            raise AssumptionError(f"{where}: unknown format {match['format']!r}; write float32, float16, int64, bool, ...")
    shape = None if match["shape"] is None else _shape(match["shape"], where)
    domain = None if match["domain"] is None else _domain(match["domain"], where)
    return InputDeclaration(match["name"], match["owner"], format, shape, domain)


def _shape(text: str, where: str) -> tuple[int | str, ...]:
    sizes: list[int | str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if part.isdigit():
            sizes.append(int(part))
        elif part.isidentifier():
            sizes.append(part)
        else:
            raise AssumptionError(f"{where}: {part!r} is no size; write a number or a name")
    return tuple(sizes)


def _domain(text: str, where: str) -> Domain:
    text = text.strip()
    interval = re.fullmatch(r"\[\s*([^,\]]+?)\s*,\s*([^,\]]+?)\s*\]", text)
    return parse_domain(f"{interval[1]}:{interval[2]}" if interval else text, where)


def declarations_in(path: Path) -> list[InputDeclaration]:
    """The declarations in the comments of a program."""
    found: list[InputDeclaration] = []
    for line, comment in _comments(path):
        match = _COMMENT.search(comment)
        if match is not None and not _OTHER.match(match["text"]):
            found.append(parse_declaration(match["text"], f"{path}:{line}"))
    return found


def _comments(path: Path) -> Iterable[tuple[int, str]]:
    try:
        with tokenize.open(path) as file:
            text = file.read()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    except (OSError, SyntaxError, UnicodeDecodeError, tokenize.TokenError):
        # Running the program will say what is wrong with it.
        return


def about(owner: str, declared: Iterable[InputDeclaration]) -> dict[str, InputDeclaration]:
    """The declarations that speak of one class or function, by input; those that name it win, then later ones."""
    chosen: dict[str, InputDeclaration] = {}
    for declaration in sorted((d for d in declared if d.owner in (None, owner)), key=lambda d: d.owner is not None):
        chosen[declaration.name] = declaration
    return chosen
