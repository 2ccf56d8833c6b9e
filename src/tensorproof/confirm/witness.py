"""Witnesses on disk: the arrays, the part of the model that fails, and a script that replays both.

The script needs onnxruntime and numpy alone. Names of nodes and tensors are data from the model file: they enter the script
as Python literals and file names as a slug, never as they are.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.files import write_bytes, write_text
from tensorproof.findings import Finding, Witness

if TYPE_CHECKING:
    import onnx

#: Failures that are not a result that is not finite: an integer division by zero, and a cast that no integer can hold.
SEEN_AT = {"NUM107": "stop", "NUM116": "operand"}

_SCRIPT = '''\
"""Replays a numerical failure with onnxruntime and numpy alone: python {file_name}

Exit code 0: the failure happened again. Exit code 1: it did not.
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort

HERE = Path(__file__).resolve().parent
NODE = {node}
RULE = {rule}
OPERANDS = {operands}
RESULTS = {results}
LEGAL = {legal}
#: "result": the result is not finite. "stop": the runtime refuses to go on. "operand": no integer holds the operand.
SEEN_AT = {seen_at}


def bad(name, array):
    if array.dtype == bool:
        return bool(array.any())
    if array.dtype.kind not in "fV":
        return False
    numbers = array.astype(np.float64)
    allowed = LEGAL.get(name, ())
    found = np.isnan(numbers)
    for value in (np.inf, -np.inf):
        if value not in allowed:
            found |= numbers == value
    return bool(found.any())


def replay():
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(str(HERE / {model}), options, providers=["CPUExecutionProvider"])
    with np.load(HERE / {arrays}, allow_pickle=False) as archive:
        names = [bytes(row).decode("utf-8") for row in archive["names"]]
        feeds = {{name: archive["array_%d" % i] for i, name in enumerate(names)}}
    observed = [o.name for o in session.get_outputs()]
    values = dict(feeds)
    try:
        results = session.run(observed, {{i.name: feeds[i.name] for i in session.get_inputs()}})
    except Exception as error:
        print("the runtime stopped:", ascii(str(error))[:300])
        return SEEN_AT == "stop"
    values.update(zip(observed, results))
    operands_fine = not any(bad(name, values[name]) for name in OPERANDS if name in values)
    failing = [name for name in RESULTS if bad(name, values[name])]
    for name in OPERANDS:
        if name in values and values[name].size and values[name].dtype.kind in "fiub":
            print("operand", ascii(name), "in [%g, %g]" % (values[name].min(), values[name].max()))
    for name in RESULTS:
        if values[name].dtype == bool:
            print("failed inside its body:", bool(values[name].any()))
            continue
        array = values[name].astype(np.float64)
        print("result ", ascii(name), "NaN:", int(np.isnan(array).sum()), "infinite:", int(np.isinf(array).sum()))
    if SEEN_AT == "operand":
        failing = [name for name in OPERANDS if name in values and (np.abs(values[name].astype(np.float64)) >= 2.0**63).any()]
    return operands_fine and bool(failing)


if __name__ == "__main__":
    reproduced = replay()
    print(RULE, "at node", ascii(NODE), "was" if reproduced else "was NOT", "reproduced")
    sys.exit(0 if reproduced else 1)
'''


def slug(finding: Finding) -> str:
    """A file name from a finding: readable, unique, and harmless whatever the node is called."""
    digest = hashlib.sha256(finding.identity.encode()).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9]+", "-", finding.node).strip("-")[-40:] or "node"
    return f"{finding.rule.code}-{name}-{digest}"


def save(
    folder: Path,
    finding: Finding,
    feeds: Mapping[str, npt.NDArray[Any]],
    model: onnx.ModelProto,
    operands: tuple[str, ...],
    results: tuple[str, ...],
    legal: Mapping[str, tuple[float, ...]],
) -> Witness:
    """Write the three files of a witness; `model` runs up to the failing node and shows its operands and results."""
    name = slug(finding)
    arrays, script, part = folder / f"{name}.npz", folder / f"{name}.py", folder / f"{name}.onnx"
    wanted = {info.name for info in model.graph.input}
    write_bytes(arrays, npz_bytes({key: value for key, value in feeds.items() if key in wanted}))
    write_bytes(part, model.SerializeToString())
    text = _SCRIPT.format(
        file_name=script.name,
        node=ascii(finding.node),
        rule=ascii(f"{finding.rule.code} {finding.rule.name}"),
        operands=ascii(list(operands)),
        results=ascii(list(results)),
        legal=_literal(legal),
        seen_at=ascii(SEEN_AT.get(finding.rule.code, "result")),
        model=ascii(part.name),
        arrays=ascii(arrays.name),
    )
    write_text(script, text)
    return Witness(str(arrays), str(script))


def _literal(legal: Mapping[str, tuple[float, ...]]) -> str:
    entries = (
        f"{name!a}: ({''.join('np.inf, ' if v > 0 else '-np.inf, ' for v in values)})" for name, values in legal.items() if values
    )
    return "{" + ", ".join(entries) + "}"


def npz_bytes(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """An .npz archive. Names of tensors may hold anything, so the members are numbered and the names are data, too."""
    buffer = io.BytesIO()
    width = max((len(name.encode()) for name in arrays), default=1)
    names = np.array([list(name.encode().ljust(width)) for name in arrays], np.uint8)
    members: dict[str, Any] = {f"array_{i}": value for i, value in enumerate(arrays.values())}
    np.savez_compressed(buffer, names=names, **members)
    return buffer.getvalue()
