"""The program of a witness for TensorFlow: it loads the model, feeds the arrays, and fails while the finding is there.

It needs TensorFlow and NumPy alone. Names of models and nodes are data from outside: they enter the program as Python literals.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tensorproof.execute.tensorflow_part import RunnableGraph
from tensorproof.findings import Finding

if TYPE_CHECKING:
    from tensorproof.frontends.tensorflow_program import TensorflowModel

#: The ends of the names of files that TensorFlow's script reads itself.
_FILES = (".pb", ".pbtxt", ".meta", ".prototxt")

_SCRIPT = '''\
"""{title}

{summary}.

    model     {model_name}
    node      {node_name}
    operator  {op}
    operand   {operand}

On the arrays beside this file the result of the operator is not finite, in TensorFlow as users run it.
{source}

This file needs tensorflow and numpy. Run it either way:

    python {file_name} [MODEL]
        exit code 1: the failure is there; exit code 0: it is gone. MODEL is another file, or folder, with the same nodes
    python -m pytest {file_name}
        fails while the failure is there
"""

import base64
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow.python.framework import op_def_registry

HERE = Path(__file__).resolve().parent
MODEL = {model!a}
ARRAYS = {arrays!a}
RULE = {rule!a}
NODE = {node!a}
OPERATOR = {operator!a}
#: Results of the node, what users get, and what is fed, with the array that it is fed with.
RESULTS = {results!a}
OUTPUTS = {outputs!a}
FEEDS = {feeds!a}
#: Variables that get their values before the run, since loops and branches read them.
VARIABLES = {variables!a}
#: The graph of a live function, as it was traced; empty for a model that is a file.
GRAPH = {graph!a}
CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def test_results_are_finite():
    there, account = replay(HERE / MODEL)
    assert not there, account


def replay(path):
    """Whether the failure is there, and what was seen, in words."""
    arrays, graph = read_arrays(), tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(inlined(read_graph(path)), name="")
    names = {{operation.name for operation in graph.get_operations()}}
    feeds = {{name: arrays[key] for name, key in FEEDS.items() if name.rpartition(":")[0] in names}}
    outputs = [name for name in OUTPUTS if name.rpartition(":")[0] in names]
    results = [name for name in RESULTS if name.rpartition(":")[0] in names]
    first = []
    with graph.as_default():
        for name, key in VARIABLES.items():
            if name in names:
                handle = graph.get_tensor_by_name(name + ":0")
                first.append(tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(arrays[key])))
    with tf.compat.v1.Session(graph=graph) as session:
        if first:
            session.run(first)
        seen = {{}}
        for wanted in [[name] for name in results] or [[]]:
            fetches = [name for name in dict.fromkeys(outputs + wanted) if name not in feeds]
            seen.update(zip(fetches, session.run(fetches, feeds)))
    judged = results or outputs
    lines = ["%s %s: %s" % ("not finite" if bad(seen[name]) else "finite    ", name, shown(seen[name])) for name in judged]
    there = any(bad(seen[name]) for name in judged)
    verdict = "is there" if there else "is gone"
    return there, "\\n".join(["%s at node %a, operator %a, %s" % (RULE, NODE, OPERATOR, verdict), *lines])


def bad(value):
    return np.asarray(value).dtype.kind in "fV" and not np.isfinite(np.asarray(value).astype(np.float64)).all()


def shown(value):
    return np.array2string(np.asarray(value), threshold=8, edgeitems=2, precision=6).replace("\\n", " ")


def read_arrays():
    """Arrays by name. bfloat16, which numpy does not have, is stored as its bits."""
    with np.load(HERE / ARRAYS, allow_pickle=False) as archive:
        names = json.loads(bytes(archive["names"]))
        return {{name: archive["array_%d" % index] for index, name in enumerate(names)}}


def read_graph(path):
    """The graph of a .pb, .pbtxt or .meta file, or of a SavedModel."""
    if GRAPH:
        return tf.compat.v1.GraphDef.FromString(base64.b64decode(GRAPH))
    if path.is_dir():
        path = next(file for file in (path / "saved_model.pb", path / "saved_model.pbtxt") if file.exists())
    read = (lambda kind: text_format.Parse(path.read_text(), kind())) if "txt" in path.suffix else (
        lambda kind: kind.FromString(path.read_bytes())
    )
    if path.stem == "saved_model":
        metas = [meta.graph_def for meta in read(saved_model_pb2.SavedModel).meta_graphs]
        fed = {{name.rpartition(":")[0].partition("/")[0] for name in FEEDS}}
        return next((graph for graph in metas if fed & {{node.name for node in graph.node}}), metas[0])
    if path.suffix == ".meta":
        return read(meta_graph_pb2.MetaGraphDef).graph_def
    return read(tf.compat.v1.GraphDef)


def inlined(graph):
    """The graph with calls of functions in place: node `inner` of `call` is `call/inner`."""
    functions = {{function.signature.name: function for function in graph.library.function}}
    flat, moved, pending = [], {{}}, list(graph.node)
    while pending:
        node = pending.pop()
        function = functions.get(node.attr["f"].func.name if node.op in CALLS else node.op)
        node.attr.pop("_class", None)
        if function is None:
            flat.append(node)
            continue
        operands = [text for text in node.input if not text.startswith("^")]
        place = {{argument.name: plain(text) for argument, text in zip(function.signature.input_arg, operands)}}
        for inner in function.node_def:
            for index, name in enumerate(result_names(inner, functions)):
                place["%s:%s" % (inner.name, name)] = "%s/%s:%d" % (node.name, inner.name, index)
        for index, argument in enumerate(function.signature.output_arg):
            moved["%s:%d" % (node.name, index)] = place[function.ret[argument.name]]
        for inner in function.node_def:
            copy = type(inner)()
            copy.CopyFrom(inner)
            copy.name = "%s/%s" % (node.name, inner.name)
            controls = ["^%s/%s" % (node.name, text[1:]) for text in inner.input if text.startswith("^")]
            copy.input[:] = [place[text] for text in inner.input if not text.startswith("^")] + controls
            pending.append(copy)
    names = {{node.name for node in flat}}
    made = tf.compat.v1.GraphDef(library=graph.library, versions=graph.versions)
    for node in flat:
        operands = []
        for text in node.input:
            if text.startswith("^"):
                operands += [text] if text[1:] in names else []
                continue
            text = plain(text)
            while text in moved:
                text = moved[text]
            operands.append(text)
        node.input[:] = operands
        made.node.add().CopyFrom(node)
    return made


def plain(text):
    return text if ":" in text else text + ":0"


def result_names(node, functions):
    """The results of a node of a function, in their order: `output:number`."""
    declared = functions[node.op].signature if node.op in functions else op_def_registry.get(node.op)
    names = []
    for argument in declared.output_arg:
        count = 1
        if argument.number_attr:
            count = node.attr[argument.number_attr].i
        elif argument.type_list_attr:
            count = len(node.attr[argument.type_list_attr].list.type)
        names += ["%s:%d" % (argument.name, index) for index in range(count)]
    return names


if __name__ == "__main__":
    there, account = replay(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / MODEL)
    print(account)
    sys.exit(1 if there else 0)
'''


def replay_script(model: TensorflowModel, finding: Finding, names: Sequence[str], arrays: Path) -> str:
    """The text of the program. The arrays are those of the point and of `TensorflowModel.kept`."""
    runnable = RunnableGraph(model.graph, model.found.fed, trust=model.options.trust)
    outputs = [model.model.name_of(number) for number in model.model.graph.outputs]
    references = {name: found for name in (*names, *outputs) if (found := runnable.reference(name)) is not None}
    part = runnable.part(sorted(set(references.values())))
    is_file = model.path is not None and (Path(model.path).is_dir() or model.path.endswith(_FILES))
    folder = arrays.parent.resolve()
    rule = f"{finding.rule.code} {finding.rule.name}"
    return _SCRIPT.format(
        title=f"{rule}: an input that makes a TensorFlow model fail.",
        summary=_plain(finding.rule.summary),
        model_name=_plain(model.model.name),
        node_name=_plain(finding.node),
        op=_plain(finding.op),
        operand=f"{_plain(finding.operand)}, within [{finding.low:g}, {finding.high:g}] by the analysis",
        source="The model is loaded from its own file."
        if is_file
        else "The graph is the one that was traced: a change of the program does not change it.",
        file_name=f"test_{arrays.stem}.py",
        model=os.path.relpath(Path(model.path).resolve(), folder) if is_file and model.path is not None else "",
        arrays=arrays.name,
        rule=rule,
        node=finding.node,
        operator=finding.op,
        results=[str(references[name]) for name in names if name in references],
        outputs=[str(references[name]) for name in outputs if name in references],
        feeds=dict(part.sources),
        variables=dict(part.variables),
        graph="" if is_file else base64.b64encode(part.graph_def).decode(),
    )


def _plain(text: str) -> str:
    """Text inside the docstring of the program: nothing in it can end the docstring."""
    return ascii(text)[1:-1].replace('"', '\\"')
