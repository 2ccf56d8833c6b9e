"""Windows as TensorFlow describes them: layouts, strides and paddings of convolutions and pools.

Attributes have one number for each axis of the tensor, in the order of its layout. SAME is as much padding as makes the result
ceil(size / stride) long, the odd element behind (tensorflow/core/framework/kernel_shape_util.cc); where sizes are not known
while the graph is read, ONNX's `SAME_UPPER` says the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensorproof.errors import NotAnalysed
from tensorproof.operators.arranging import Arranged, channels_first, channels_last

if TYPE_CHECKING:
    from tensorproof.frontends.tensorflow_call import TensorflowCall
    from tensorproof.graph import Dimension


@dataclass(frozen=True, slots=True)
class Layout:
    """Where batch, channels and space stand among the axes of a tensor."""

    rank: int
    is_last: bool

    @property
    def channel(self) -> int:
        """The axis of channels."""
        return self.rank - 1 if self.is_last else 1

    @property
    def space(self) -> range:
        """The axes of space."""
        return range(1, self.rank - 1) if self.is_last else range(2, self.rank)

    def spatial(self, items: Sequence[Any]) -> list[Any]:
        """The items of a list with one for each axis that belong to space."""
        return [items[axis] for axis in self.space]

    def enter(self, x: Arranged) -> Arranged:
        """A tensor of this layout as (batch, channels, space)."""
        return x.transposed(channels_first(self.rank)) if self.is_last else x

    def leave(self, call: TensorflowCall, y: int) -> int:
        """(batch, channels, space) as a tensor of this layout."""
        return Arranged(call, y).transposed(channels_last(self.rank)).number if self.is_last else y


def layout_of(call: TensorflowCall, rank: int) -> Layout:
    """The layout of a call's tensors (`data_format`)."""
    named = str(call.attribute("data_format", "NHWC"))
    if named.startswith("NCHW_VECT"):
        raise NotAnalysed(f"{call.name} of vectors of channels ({named}) is not modelled")
    return Layout(rank, not (named.startswith("NC") or named == "CHANNELS_FIRST"))


def operand_of(call: TensorflowCall, index: int) -> Arranged:
    """An operand that is rearranged: as an array where the program itself holds its numbers."""
    return Arranged(call, call.operand(index), call.known(index) if call.is_known(index) else None)


@dataclass(frozen=True, slots=True)
class Windows:
    """Kernel, strides and dilations along the axes of space, and how their borders are padded."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    #: SAME, VALID or EXPLICIT with these numbers before and behind each axis.
    padding: str
    explicit: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(
        cls, call: TensorflowCall, layout: Layout, kernel: Sequence[Any], strides: Sequence[int], dilations: Sequence[int] = ()
    ) -> Windows:
        """Windows of a kernel, by the attributes of a call."""
        if not all(isinstance(size, int) for size in kernel):
            raise NotAnalysed(f"the size of the kernel of {call.name} is not known")
        given = [int(number) for number in call.attribute("explicit_paddings") or ()]
        pairs = list(zip(given[::2], given[1::2], strict=True))
        named = str(call.attribute("padding", "VALID"))
        if named == "EXPLICIT":
            # The generic convolution states paddings of space alone.
            pairs = pairs if len(pairs) == len(kernel) else layout.spatial(pairs)
        return cls(tuple(kernel), tuple(strides), tuple(dilations) or (1,) * len(kernel), named, tuple(pairs))

    def pads(self, sizes: Sequence[Dimension]) -> list[tuple[int, int]] | None:
        """The padding before and behind each axis of space; None where it depends on sizes that are not known."""
        if self.padding != "SAME":
            return list(self.explicit) if self.padding == "EXPLICIT" else [(0, 0)] * len(self.kernel)
        found: list[tuple[int, int]] = []
        for size, kernel, stride, dilation in zip(sizes, self.kernel, self.strides, self.dilations, strict=True):
            if not isinstance(size, int):
                return None
            total = max(0, (-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size)
            found.append((total // 2, total - total // 2))
        return found

    def known_pads(self, sizes: Sequence[Dimension], name: str) -> list[tuple[int, int]]:
        """The padding, which has to be known."""
        found = self.pads(sizes)
        if found is None:
            raise NotAnalysed(f"the padding of {name} depends on sizes that are not known")
        return found

    def outputs(self, sizes: Sequence[int], name: str) -> list[int]:
        """How many windows there are along each axis of space."""
        pads = self.known_pads(sizes, name)
        parts = zip(sizes, pads, self.kernel, self.strides, self.dilations, strict=True)
        return [(size + sum(pad) - (kernel - 1) * dilation - 1) // stride + 1 for size, pad, kernel, stride, dilation in parts]

    def attributes(self, sizes: Sequence[Dimension]) -> dict[str, Any]:
        """ONNX's attributes of a node over axes of these sizes."""
        pads = self.pads(sizes)
        padding: dict[str, Any] = {"auto_pad": "SAME_UPPER"} if pads is None else {"pads": flat(pads)}
        return {"strides": list(self.strides), **padding}


def flat(pads: Sequence[tuple[int, int]]) -> list[int]:
    """Paddings of all axes in ONNX's order: those before, then those behind."""
    return [*(begin for begin, _ in pads), *(end for _, end in pads)]


def space_of(call: TensorflowCall, layout: Layout, index: int) -> list[Dimension]:
    """The sizes of space of an operand, None where they are not known."""
    shape = call.shape(index)
    return [None] * len(layout.space) if shape is None else layout.spatial(shape)
