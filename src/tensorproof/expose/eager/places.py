"""Where an eager program is when TensorFlow runs an operator: the user's line, and the function of a library that it called.

Frames are looked at for every operator, so they are told apart by their files alone, and put into words only where that is asked.
"""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from tensorproof.observe.places import Mark, Place

_OWN = str(Path(__file__).parents[2]) + "/"
_LIBRARIES = tuple({str(Path(sysconfig.get_path(key))) + "/" for key in ("stdlib", "platstdlib", "purelib", "platlib")})
#: Frames that are searched for what holds a tensor, and items of a list that are searched for an array.
_DEPTH = 60
_MOST_ITEMS = 100


class Words(NamedTuple):
    """A place in words that are the same in every run: file and line, the column, and the function of a library."""

    line: str
    column: str
    within: str


class Where(NamedTuple):
    """An instruction of the user's, and the innermost one of a library that it led to; None where there is none.

    One call of `fit` leads to all operators of a training: they are told apart by the instruction of the library.
    """

    code: CodeType | None
    instruction: int
    inner: CodeType | None
    inner_instruction: int

    def place(self) -> Place:
        """The user's line; where there is none, that of the library."""
        if self.code is None:
            return Mark(self.inner, self.inner_instruction, None).place()
        return Mark(self.code, self.instruction, None).place()

    def words(self) -> Words:
        """The place in words."""
        key = id(self.code), self.instruction, id(self.inner), self.inner_instruction
        known = _WORDS.get(key)
        if known is None:
            place = self.place()
            inner = Mark(self.inner, self.inner_instruction, None).place()
            within = "" if self.inner is None else f"@{self.inner.co_name}.{inner.line}"
            # The code is kept, so that its number stays its own.
            known = _WORDS[key] = Words(f"{Path(place.file or '').name}:{place.line}", str(place.column), within), self
        return known[0]


#: To hash the code of a function takes long: places are known by its number.
_WORDS: dict[tuple[int, int, int, int], tuple[Words, Where]] = {}


def where(frame: FrameType | None) -> Where:
    """The place of an operator that is called from this frame; frames of TensorFlow and of tensorproof are left out."""
    inner: CodeType | None = None
    inner_instruction = 0
    while frame is not None:
        kind = _kind(frame.f_code.co_filename)
        if kind == "user":
            return Where(frame.f_code, frame.f_lasti, inner, inner_instruction)
        if kind == "library" and inner is None:
            inner, inner_instruction = frame.f_code, frame.f_lasti
        frame = frame.f_back
    return Where(None, 0, inner, inner_instruction)


def has_passed(frame: FrameType | None, function: str) -> bool:
    """Whether a function of a library stands between the user's line and this frame."""
    while frame is not None and (kind := _kind(frame.f_code.co_filename)) != "user":
        if kind == "library" and frame.f_code.co_name == function:
            return True
        frame = frame.f_back
    return False


def label_of(tensor: Any, frame: FrameType | None) -> str:
    """The variable of the user's that holds a tensor, in one of the innermost frames; empty if there is none."""
    for _ in range(_DEPTH):
        if frame is None:
            break
        if _kind(frame.f_code.co_filename) == "user":
            for name, value in frame.f_locals.items():
                if value is tensor and not name.startswith("_"):
                    return name
        frame = frame.f_back
    return ""


def is_from_user(numbers: Any, frame: FrameType | None) -> bool:
    """Whether numbers that become a tensor are the user's: the user's line makes the tensor, or handed them to a library."""
    outermost: FrameType | None = None
    while frame is not None:
        kind = _kind(frame.f_code.co_filename)
        if kind == "user":
            return outermost is None or _holds(outermost.f_locals, numbers)
        if kind == "library":
            outermost = frame
        frame = frame.f_back
    return False


def _holds(container: Any, numbers: Any, depth: int = 4) -> bool:
    """Whether a container holds numbers, or an array that they are part of."""
    if container is numbers:
        return True
    if isinstance(container, np.ndarray):
        return isinstance(numbers, np.ndarray) and np.may_share_memory(container, numbers)
    if depth and isinstance(container, dict | list | tuple):
        items: Any = container.values() if isinstance(container, dict) else container[:_MOST_ITEMS]
        return any(_holds(item, numbers, depth - 1) for item in items)
    return False


def is_state(tensor: Any, frame: FrameType | None) -> bool:
    """Whether a tensor is an attribute of a layer or module that is being called, such as an encoding of positions."""
    for _ in range(_DEPTH):
        if frame is None:
            return False
        holder = frame.f_locals.get("self")
        if hasattr(type(holder), "trainable_variables") and any(value is tensor for value in vars(holder).values()):
            return True
        frame = frame.f_back
    return False


@cache
def _kind(file: str) -> str:
    parts = Path(file).parts
    if file.startswith(_OWN):
        return "own"
    if "site-packages" in parts:
        return "framework" if "tensorflow" in parts else "library"
    return "library" if file.startswith(_LIBRARIES) or file.startswith("<frozen ") else "user"
