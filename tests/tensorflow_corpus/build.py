"""Builds the models of the corpus with TensorFlow, and runs each at the point that its pair names.

    python -m tests.tensorflow_corpus.build FOLDER

writes the files and `observed.json`: for each model whether all that it computes at that point is finite.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.tensorflow_corpus.catalogue import PAIRS
from tests.tensorflow_corpus.pairs import Pair


def written(pair: Pair, safe: bool, folder: Path) -> bool:
    """Build one twin into the folder; whether it is finite at the point of the pair."""
    if pair.kind == "saved_v2":
        return _module(pair, safe, folder)
    if pair.kind == "keras":
        return _network(pair, safe, folder)
    return _graph(pair, safe, folder)


def _graph(pair: Pair, safe: bool, folder: Path) -> bool:
    import tensorflow.compat.v1 as tf

    (tf.enable_resource_variables if pair.variables == "resource" else tf.disable_resource_variables)()
    (tf.enable_control_flow_v2 if pair.control_flow == "v2" else tf.disable_control_flow_v2)()
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        results = pair.build(safe)
        start = tf.global_variables_initializer()
        saver = tf.train.Saver() if tf.global_variables() else None
        with tf.Session() as session:
            session.run(start)
            _write(pair, safe, folder, graph, session, saver, results)
            feeds: dict[str, Any] = {}
            variables = {variable.op.name: variable for variable in tf.global_variables()}
            for name, value in pair.point.items():
                if name in variables:
                    shape = variables[name].shape.as_list()
                    variables[name].load(np.broadcast_to(np.asarray(value, np.float32), shape), session)
                else:
                    tensor = graph.get_tensor_by_name(f"{name}:0")
                    shape = [3 if size is None else size for size in tensor.shape.as_list()]
                    feeds[f"{name}:0"] = np.broadcast_to(np.asarray(value, tensor.dtype.as_numpy_dtype), shape)
            try:
                return _finite(session.run([_dense(result) for result in results], feeds))
            except tf.errors.InvalidArgumentError as error:  # a division of whole numbers by 0
                assert "ivision by zero" in str(error), error
                return False


def _dense(result: Any) -> Any:
    return result.values if hasattr(result, "values") and hasattr(result, "indices") else result


def _finite(results: Sequence[Any]) -> bool:
    return all(bool(np.all(np.isfinite(result))) for result in results)


def _write(pair: Pair, safe: bool, folder: Path, graph: Any, session: Any, saver: Any, results: Sequence[Any]) -> None:
    import tensorflow.compat.v1 as tf

    path = folder / pair.path(safe)
    match pair.kind:
        case "pb" | "pbtxt":
            tf.io.write_graph(graph, str(folder), path.name, as_text=pair.kind == "pbtxt")
        case "meta":
            tf.train.export_meta_graph(str(path), graph=graph)
        case "checkpoint":
            saver.save(session, str(path.with_suffix("")), write_state=False)
        case "frozen":
            names = [result.op.name for result in results]
            frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), names)
            tf.io.write_graph(frozen, str(folder), path.name, as_text=False)
        case _:
            inputs = {op.name: op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder" and "/" not in op.name}
            tf.saved_model.simple_save(session, str(path), inputs, {"output": results[0]})


def _module(pair: Pair, safe: bool, folder: Path) -> bool:
    import tensorflow as tf

    tf.compat.v1.enable_resource_variables()
    tf.compat.v1.enable_control_flow_v2()
    module = pair.build(safe)
    options = tf.saved_model.SaveOptions(save_debug_info=True)
    tf.saved_model.save(module, str(folder / pair.path(safe)), signatures=module.call, options=options)
    inputs: dict[str, Any] = {}
    for spec in module.call.input_signature:
        value, shape = pair.point[spec.name], [3 if size is None else size for size in spec.shape]
        inputs[spec.name] = tf.constant(np.broadcast_to(np.asarray(value, spec.dtype.as_numpy_dtype), shape))
    for variable in module.variables:
        name = variable.name.partition(":")[0]
        if name in pair.point:
            variable.assign(np.broadcast_to(np.asarray(pair.point[name], np.float32), variable.shape))
    return _finite([result.numpy() for result in tf.nest.flatten(module.call(**inputs))])


def _network(pair: Pair, safe: bool, folder: Path) -> bool:
    import keras

    keras.utils.clear_session()
    model = pair.build(safe)
    model.save(folder / pair.path(safe))
    inputs: dict[str, Any] = {}
    for entrance in model.inputs:
        shape = [3 if size is None else size for size in entrance.shape]
        inputs[entrance.name] = np.broadcast_to(np.asarray(pair.point[entrance.name], np.float32), shape)
    results = model.predict_on_batch(inputs if len(inputs) > 1 else next(iter(inputs.values())))
    return _finite(results if isinstance(results, list) else [results])


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    observed: dict[str, bool] = {}
    for pair in PAIRS.values():
        for safe in (False, True):
            observed[pair.stem(safe)] = written(pair, safe, folder)
    (folder / "observed.json").write_text(json.dumps(observed, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
