"""Witnesses on disk: the arrays, the part of the model that fails, and a test file that replays both.

The test file needs onnxruntime and numpy alone. It runs under pytest, and as a program. Names of models, nodes and tensors
are data from outside: they enter the file as Python literals and file names as a slug, never as they are.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.files import write_bytes, write_text
from tensorproof.findings import Finding, Witness
from tensorproof.targets import flushes_subnormals

if TYPE_CHECKING:
    import onnx

#: Failures that are not a result that is not finite: an integer division by zero, and a cast that no integer can hold.
SEEN_AT = {"NUM107": "stop", "NUM116": "operand"}

#: The value that says, in a run, whether a node inside a body failed.
FLAG = "tensorproof.failed"

#: A name in the words on top of a test file is cut to this many characters; below, it stands in full.
LONGEST_NAME = 200

_SCRIPT = '''\
"""{title}

{summary}.

    model     {model_name}
    node      {node_name}
    operator  {op}
    operand   {operand}
    rule      {rule}

{seen}

The arrays are in {arrays}: inputs of the model, and weights where they are ranges.
The nodes that lead to the failure are in {part}, a copy: a repair of the model does not change it.

This file needs onnxruntime and numpy. Run it either way:

    python {file_name}
        exit code 0: the failure happened again; exit code 1: it did not
    python -m pytest {file_name}
        passes if the failure happens again
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort

HERE = Path(__file__).resolve().parent
MODEL = {part!a}
ARRAYS = {arrays!a}
RULE = {rule!a}
NODE = {node!a}
OPERATOR = {operator!a}
OPERANDS = {operands!a}
RESULTS = {results!a}
#: Infinities that belong to a value, as those of a mask: they are no failure.
LEGAL = {legal}
#: "result": a result is not finite. "flag": the same, inside the body of an If, Loop or Scan. "stop": the runtime refuses
#: to go on. "operand": no integer holds the operand.
SEEN_AT = {seen_at!a}
#: Whether the target takes subnormal numbers for zero. The first session of a process decides that for all of them.
FLUSHES = {flushes!a}


def test_{test_name}_happens_again():
    happened, account = replay(in_own_process=SEEN_AT == "stop" or FLUSHES)
    assert happened, account


def replay(in_own_process):
    """Whether the failure happened again, and what was seen, in words."""
    happened, seen = replay_in_own_process() if in_own_process else replay_here()
    verdict = "happened again" if happened else "did NOT happen again"
    return happened, "\\n".join(["%s at node %a, operator %a, %s" % (RULE, NODE, OPERATOR, verdict), *seen])


def replay_in_own_process():
    """Some versions of the runtime end the whole process, where others refuse to go on."""
    ended = subprocess.run([sys.executable, __file__, "--here"], capture_output=True, text=True)
    killed = ended.returncode < 0 or ended.returncode >= 0xC0000000
    seen = ["the process of the runtime was ended, code %d" % ended.returncode] if killed else ended.stdout.splitlines()[1:]
    return killed or ended.returncode == 0, seen + ended.stderr.splitlines()[-1:]


def replay_here():
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    if FLUSHES:
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
    session = ort.InferenceSession(str(HERE / MODEL), options, providers=["CPUExecutionProvider"])
    feeds, values = inputs(session)
    observed = [output.name for output in session.get_outputs()]
    try:
        values.update(zip(observed, session.run(observed, feeds)))
    except Exception as error:
        # An error of a kernel; what the runtime says of inputs that it cannot take has other types.
        refused = type(error).__name__ in ("Fail", "RuntimeException")
        return SEEN_AT == "stop" and refused, ["the runtime stopped: " + ascii(str(error))[:500]]
    operands = {{name: values[name] for name in OPERANDS if isinstance(values.get(name), np.ndarray)}}
    results = {{name: values[name] for name in RESULTS if isinstance(values.get(name), np.ndarray)}}
    seen = [described("operand", *item) for item in operands.items()] + [described("result", *item) for item in results.items()]
    if SEEN_AT == "flag":
        failed = any(array.any() for array in results.values())
    elif SEEN_AT == "operand":
        failed = any(bool((np.abs(array.astype(np.float64)) >= 2.0**63).any()) for array in operands.values())
    else:
        failed = SEEN_AT == "result" and any(unexpected(*item) for item in results.items())
    return failed and not any(unexpected(*item) for item in operands.items()), seen


def inputs(session):
    """The arrays as the runtime takes them, and as numpy reads them: numpy has no bfloat16, of which the bits are stored."""
    with np.load(HERE / ARRAYS, allow_pickle=False) as archive:
        names = json.loads(bytes(archive["names"]))
        arrays = {{name: archive["array_%d" % i] for i, name in enumerate(names)}}
    feeds = {{}}
    for wanted in session.get_inputs():
        array = feeds[wanted.name] = arrays[wanted.name]
        if wanted.type == "tensor(bfloat16)":
            feeds[wanted.name] = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, 16)
            arrays[wanted.name] = np.left_shift(array, 16, dtype=np.uint32).view(np.float32)
    return feeds, arrays


def unexpected(name, array):
    """How many elements are NaN, or infinities that do not belong there."""
    if array.dtype.kind != "f":
        return 0
    found = np.isnan(array)
    for infinity in (np.inf, -np.inf):
        if infinity not in LEGAL.get(name, ()):
            found |= array == infinity
    return int(found.sum())


def described(role, name, array):
    text = "%s %a, shape %s, %s" % (role, name, array.shape, array.dtype)
    if array.dtype.kind not in "fiu":
        return text
    finite = array[np.isfinite(array)].astype(np.float64)
    ends = "[%g, %g]" % (finite.min(), finite.max()) if finite.size else "no finite values"
    return "%s: %s, NaN: %d, infinite: %d" % (text, ends, np.isnan(array).sum(), np.isinf(array).sum())


if __name__ == "__main__":
    happened, account = replay(in_own_process=SEEN_AT == "stop" and sys.argv[1:] != ["--here"])
    print(account)
    sys.exit(0 if happened else 1)
'''

#: What a run shows, in words, by where it is seen.
_SEEN = {
    "result": "On the arrays beside this file, all operands of the node are as they should be and a result is NaN or infinite.",
    "flag": "On the arrays beside this file, the node, which is inside a body, has finite operands and a result that is not.",
    "stop": "On the arrays beside this file, the runtime stops at the node.",
    "operand": "On the arrays beside this file, the operand of the node is a number that no 64-bit integer can hold.",
}


def slug(finding: Finding, model_name: str) -> str:
    """A file name from a finding: readable, unique, and harmless whatever the node is called. It can name a Python module."""
    digest = hashlib.sha256(json.dumps([model_name, finding.identity]).encode()).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9]+", "_", finding.node).strip("_")[-40:] or "node"
    return f"{finding.rule.code}_{name}_{digest}"


def save(
    folder: Path,
    finding: Finding,
    feeds: Mapping[str, npt.NDArray[Any]],
    model: onnx.ModelProto,
    operands: tuple[str, ...],
    results: tuple[str, ...],
    legal: Mapping[str, tuple[float, ...]],
    *,
    model_name: str,
) -> Witness:
    """Write the three files of a witness.

    `model` runs up to the failing node and shows its operands and results, or, for a node inside a body, `FLAG`.
    `model_name` is what the user calls the whole model.
    """
    name = slug(finding, model_name)
    arrays, script, part = folder / f"{name}.npz", folder / f"test_{name}.py", folder / f"{name}.onnx"
    wanted = {info.name for info in model.graph.input}
    write_bytes(arrays, npz_bytes({key: value for key, value in feeds.items() if key in wanted}))
    write_bytes(part, model.SerializeToString())
    seen_at = "flag" if results == (FLAG,) else SEEN_AT.get(finding.rule.code, "result")
    rule = f"{finding.rule.code} {finding.rule.name}"
    text = _SCRIPT.format(
        title=f"{rule}: an input that makes a model fail.",
        summary=_words(finding.rule.summary),
        model_name=_quoted(model_name),
        node_name=_quoted(finding.node),
        op=_quoted(finding.op),
        operand=f"{_quoted(finding.operand)}, within [{finding.low:g}, {finding.high:g}] by the analysis",
        rule=rule,
        seen=_SEEN[seen_at],
        file_name=script.name,
        test_name=re.sub(r"\W", "_", finding.rule.name),
        node=finding.node,
        operator=finding.op,
        operands=list(operands),
        results=list(results),
        legal=_literal(legal),
        seen_at=seen_at,
        flushes=flushes_subnormals(finding.target),
        part=part.name,
        arrays=arrays.name,
    )
    write_text(script, text)
    return Witness(str(arrays), str(script))


def _quoted(name: str) -> str:
    """A name as a literal inside the docstring of the test file."""
    return _words(ascii(name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "..."))


def _words(text: str) -> str:
    """Text inside the docstring of the test file: nothing in it can end the docstring."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _literal(legal: Mapping[str, tuple[float, ...]]) -> str:
    entries = (
        f"{name!a}: ({''.join('np.inf, ' if v > 0 else '-np.inf, ' for v in values)})" for name, values in legal.items() if values
    )
    return "{" + ", ".join(entries) + "}"


def npz_bytes(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """An .npz archive. Names of tensors may hold anything, so the members are numbered and the names are data, too.

    Formats that numpy does not know (bfloat16) are stored as their bits, and strings as numpy's own: nothing is pickled.
    """
    buffer = io.BytesIO()
    names = np.frombuffer(json.dumps(list(arrays)).encode(), np.uint8)
    members: dict[str, Any] = {f"array_{i}": _plain_numpy(value) for i, value in enumerate(arrays.values())}
    np.savez_compressed(buffer, names=names, **members)
    return buffer.getvalue()


def _plain_numpy(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.dtype.kind == "V":
        return array.view(f"u{array.dtype.itemsize}")
    return array.astype(np.str_) if array.dtype.kind == "O" else array
