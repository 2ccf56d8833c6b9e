"""The process of the fuzz test: python -m tests.fuzz_files FOLDER COUNT [SEED] prints a JSON tally."""

from __future__ import annotations

import json
import random
import resource
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
from examples.models import EXAMPLES
from google.protobuf.descriptor import FieldDescriptor

from tests.commands import tensorproof
from tests.models import with_bodies

MEMORY = 6 << 30
SECONDS_PER_FILE = 20


def originals() -> list[onnx.ModelProto]:
    """Example models, and small ones with sub-graphs."""
    return [make() for make, _ in EXAMPLES.values()] + with_bodies()


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """Flips, deletions, insertions and copies of a few bytes."""
    result = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at = rng.randrange(len(result)) if result else 0
        kind = rng.randrange(4)
        if kind == 0 and result:
            result[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del result[at : at + rng.randrange(1, 20)]
        elif kind == 2:
            result[at:at] = rng.randbytes(rng.randrange(1, 8))
        else:
            other = rng.randrange(len(result) + 1)
            result[at:at] = result[other : other + rng.randrange(1, 40)]
    return bytes(result)


def messages(message: Any) -> list[Any]:
    """A message and all messages inside it."""
    found = [message]
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                found.extend(messages(inner))
    return found


NUMBERS = [0, 1, -1, 2, 7, 13, 28, 255, 2**31 - 1, -(2**31), 2**31, 2**62, -(2**63), 2**63 - 1]


def random_scalar(rng: random.Random, field: Any) -> Any:
    if field.cpp_type in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64):
        number = rng.choice(NUMBERS)
        return abs(number) if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64 else number
    if field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_ENUM):
        return rng.choice([0, 1, 2, 7, 10, 16, 99, -1])
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return rng.choice([0.0, -1.0, 1e38, float("nan"), float("inf")])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.randbytes(rng.randrange(12))
    names = ["", "x", "y", "Log", "Reshape", "Loop", "ConstantOfShape", "Tile", "MatMul", "W", "no such name", "\x00\n"]
    return rng.choice(names)


def mutate_fields(rng: random.Random, proto: onnx.ModelProto) -> bytes:
    """Fields replaced, removed, repeated or swapped, so that the file still parses."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        target = rng.choice(messages(copy))
        present = [field for field, _ in target.ListFields()]
        if not present:
            continue
        field = rng.choice(present)
        try:
            if field.is_repeated:
                values = getattr(target, field.name)
                index = rng.randrange(len(values))
                if rng.random() < 0.4 or field.type == FieldDescriptor.TYPE_MESSAGE:
                    if rng.random() < 0.5:
                        del values[index]
                    elif field.type == FieldDescriptor.TYPE_MESSAGE:
                        values.append(values[index])
                    else:
                        values.append(random_scalar(rng, field))
                else:
                    values[index] = random_scalar(rng, field)
            elif field.type == FieldDescriptor.TYPE_MESSAGE or rng.random() < 0.3:
                target.ClearField(field.name)
            else:
                setattr(target, field.name, random_scalar(rng, field))
        except (TypeError, ValueError):
            continue
    return copy.SerializeToString()


def main(folder: Path, count: int, seed: int) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    tally: Counter[str] = Counter()
    bad: list[str] = []
    sources = originals()
    slowest = 0.0

    def too_long(*_: object) -> None:
        raise TimeoutError("the time limit of one file was reached")

    signal.signal(signal.SIGALRM, too_long)
    for number in range(count):
        rng = random.Random(seed * 1_000_003 + number)
        source = rng.choice(sources)
        data = mutate_bytes(rng, source.SerializeToString()) if number % 2 else mutate_fields(rng, source)
        path = folder / "mutated.onnx"
        path.write_bytes(data)
        started = time.monotonic()
        signal.alarm(SECONDS_PER_FILE)
        try:
            result = tensorproof("check", path, "--no-confirm", "--format", "json")
        finally:
            signal.alarm(0)
        slowest = max(slowest, time.monotonic() - started)
        tally[str(result.code)] += 1
        broken = "internal error" in result.err or "Traceback" in result.err or result.err.count("\n") > 1
        if broken or result.code not in (0, 1, 2) or (result.code == 2) != bool(result.err):
            keep = folder / f"bad-{number}.onnx"
            keep.write_bytes(data)
            bad.append(f"{number}: code {result.code} {result.err[:300]}")
    print(json.dumps({"files": count, "codes": dict(tally), "bad": bad[:20], "slowest": round(slowest, 2)}))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0))
