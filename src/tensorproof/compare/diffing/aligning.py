"""`align`: which value of one model stands for which value of the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from tensorproof.compare.backends.backend import ModelFacts
from tensorproof.errors import ModelError

#: What ONNX Runtime's quantiser calls the value that has passed through a quantisation.
_DEQUANTISED = "_DequantizeLinear_Output"


@dataclass(frozen=True)
class Pair:
    """A value of the left model and the one that stands for it in the right model."""

    left: str
    right: str


@dataclass(frozen=True)
class Alignment:
    """Pairs in the order in which the right model computes them; `inputs` and `outputs` apart.

    `frontier` leads from a pair to the pairs that both operators compute it from.
    """

    inputs: tuple[Pair, ...]
    outputs: tuple[Pair, ...]
    pairs: tuple[Pair, ...]
    left_reads: Mapping[str, tuple[str, ...]]
    right_reads: Mapping[str, tuple[str, ...]]
    #: Whether inner values were matched by their names; by their order alone, a match may be none.
    is_by_name: bool = True

    def frontier(self, pair: Pair) -> tuple[Pair, ...]:
        """The nearest aligned values before a pair: enough to compute it, on both sides."""
        known = (*self.inputs, *self.pairs)
        by_left = {entry.left: entry for entry in known}
        by_right = {entry.right: entry for entry in known}
        found = _nearest(pair.right, self.right_reads, by_right) + _nearest(pair.left, self.left_reads, by_left)
        return tuple(dict.fromkeys(found))

    def before(self, pair: Pair) -> list[Pair]:
        """The pairs that a pair depends on, in order, and itself last."""
        needed = {pair.right}
        stack = [pair.right]
        while stack:
            for name in self.right_reads.get(stack.pop(), ()):
                if name not in needed:
                    needed.add(name)
                    stack.append(name)
        return [entry for entry in self.pairs if entry.right in needed and entry.right != pair.right] + [pair]


def _nearest(name: str, reads: Mapping[str, tuple[str, ...]], known: Mapping[str, Pair]) -> list[Pair]:
    found: list[Pair] = []
    seen: set[str] = set()
    stack = list(reads.get(name, ()))
    while stack:
        entry = stack.pop()
        if entry in seen:
            continue
        seen.add(entry)
        if entry in known:
            found.append(known[entry])
        else:
            stack.extend(reads.get(entry, ()))
    return found


def align(left: ModelFacts, right: ModelFacts) -> Alignment:
    """Inputs by name or else by order; outputs by order; inner values by name, by the program they were exported from, by order."""
    inputs = _inputs(left, right)
    if len(left.outputs) != len(right.outputs):
        raise ModelError(
            f"the models have {len(left.outputs)} and {len(right.outputs)} outputs: {', '.join(left.outputs)} and "
            f"{', '.join(right.outputs)}; compare models with the same outputs"
        )
    outputs = tuple(Pair(*names) for names in zip(left.outputs, right.outputs))
    by_right = _by_name(left, right)
    is_by_name = any(name not in right.outputs for name in by_right)
    if not is_by_name:
        by_right = {**_by_order(left, right), **by_right}
    final = {pair.left for pair in outputs}
    by_right = {name: other for name, other in by_right.items() if other not in final} | {p.right: p.left for p in outputs}
    place = {name: index for index, name in enumerate(right.values)}
    ordered = sorted((name for name in by_right if name in place), key=lambda name: place[name])
    pairs = _rising([Pair(by_right[name], name) for name in ordered], left, {pair.right for pair in outputs})
    return Alignment(inputs, outputs, pairs, left.reads, right.reads, is_by_name)


def _inputs(left: ModelFacts, right: ModelFacts) -> tuple[Pair, ...]:
    ours, theirs = [entry[0] for entry in left.inputs], [entry[0] for entry in right.inputs]
    if len(ours) != len(theirs):
        raise ModelError(
            f"the models have other inputs: {', '.join(ours) or 'none'} and {', '.join(theirs) or 'none'}; compare models with "
            "the same inputs"
        )
    pairs = tuple(Pair(name, name) for name in ours) if set(ours) == set(theirs) else tuple(map(Pair, ours, theirs))
    shapes = ({name: (dtype, shape) for name, dtype, shape in facts.inputs} for facts in (left, right))
    left_shapes, right_shapes = shapes
    for pair in pairs:
        (kind, shape), (other_kind, other) = left_shapes[pair.left], right_shapes[pair.right]
        if len(shape) != len(other) or any(a is not None and b is not None and a != b for a, b in zip(shape, other)):
            raise ModelError(f"the input {pair.left!r} is of shape {_shown(shape)} in one model and {_shown(other)} in the other")
        if _is_floating(kind) != _is_floating(other_kind):
            raise ModelError(f"the input {pair.left!r} is of type {kind} in one model and {other_kind} in the other")
    return pairs


def _by_name(left: ModelFacts, right: ModelFacts) -> dict[str, str]:
    """Equal names; of an exported model, the last value that was made from a node of the program."""
    found: dict[str, str] = {}
    ours = set(left.values)
    taken: set[str] = set()
    origins: dict[str, str] = {}
    for name in right.values:
        origin = right.places.get(name, {}).get("origin")
        if origin is not None and origin not in right.operators:
            origins[origin] = name
    # What others read is the value after its quantisation: before it, a fused activation may still be missing.
    for name in right.values:
        plain = name.removesuffix(_DEQUANTISED)
        if plain != name and plain in ours:
            found[name] = plain
            taken.add(plain)
    for name in right.values:
        if name in ours and name not in taken and _same_line(left, name, right, name):
            found[name] = name
            taken.add(name)
    for origin, name in origins.items():
        if origin in ours and origin not in taken and name not in found and _same_line(left, origin, right, name):
            found[name] = origin
    return found


def _same_line(left: ModelFacts, ours: str, right: ModelFacts, theirs: str) -> bool:
    """Whether nothing speaks against two values being one: exporters number their nodes anew."""
    a, b = left.places.get(ours, {}), right.places.get(theirs, {})
    if a.get("module") and b.get("module") and a["module"] != b["module"]:
        return False
    return not (a.get("line") and b.get("line")) or a["line"] == b["line"]


def _by_order(left: ModelFacts, right: ModelFacts) -> dict[str, str]:
    """Values of equal operators in the same order. Whether their shapes are equal shows when they are fetched."""
    ours = [left.operators[name] for name in left.values]
    theirs = [right.operators[name] for name in right.values]
    found: dict[str, str] = {}
    for block in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        for offset in range(block.size):
            found[right.values[block.b + offset]] = left.values[block.a + offset]
    return found


def _rising(pairs: list[Pair], left: ModelFacts, outputs: Iterable[str]) -> tuple[Pair, ...]:
    """Each value of the left model once; an output's pair wins."""
    final = set(outputs)
    claimed = {pair.left for pair in pairs if pair.right in final}
    kept: list[Pair] = []
    seen: set[str] = set()
    known = set(left.values)
    for pair in pairs:
        if pair.left not in known or (pair.right not in final and (pair.left in seen or pair.left in claimed)):
            continue
        seen.add(pair.left)
        kept.append(pair)
    return tuple(kept)


def _is_floating(dtype: str) -> bool:
    return "float" in dtype


def _shown(shape: tuple[int | None, ...]) -> str:
    return "(" + ", ".join("?" if size is None else str(size) for size in shape) + ")"
