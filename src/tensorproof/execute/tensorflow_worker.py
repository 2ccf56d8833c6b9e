"""A process that runs TensorFlow graphs: what a graph does there never reaches the analyser, nor any file.

The parent (`tensorproof.execute.tensorflow_graph`) sends the part of a graph that the wanted values need, as a GraphDef, and then
arrays. The process has a limit on its time, writes no files and dumps no memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.execute.worker import serve


class Graphs:
    """The child's end: graphs by number, each with one session as it is written and one as TensorFlow rewrites it."""

    def __init__(self) -> None:
        self._graphs: dict[int, Any] = {}
        self._sessions: dict[tuple[int, bool], Any] = {}
        self._tensorflow: Any = None

    def begin(self, seconds: int) -> str:
        """Import TensorFlow and give up what running a graph does not need; its version."""
        import tensorflow

        self._tensorflow = tensorflow
        _limit(seconds)
        return str(tensorflow.__version__)

    def load(self, graph_def: bytes) -> int:
        """Read a graph; returns its number."""
        tf = self._tensorflow
        proto = tf.compat.v1.GraphDef.FromString(graph_def)
        complete_functions(proto)
        graph = tf.Graph()
        with graph.as_default():
            tf.graph_util.import_graph_def(proto, name="")
        number = len(self._graphs) + 1
        self._graphs[number] = graph
        return number

    def run(
        self,
        number: int,
        first: Sequence[str],
        feeds: dict[str, npt.NDArray[Any]],
        fetches: Sequence[str],
        optimised: bool,
        fresh: bool,
    ) -> list[npt.NDArray[Any]]:
        """Values of a graph. The nodes `first` are run before (they give variables their values).

        `fresh` asks for a new session: random operators start over in it.
        """
        session = self._session(number, optimised, fresh)
        try:
            if first:
                session.run(list(first), feeds)
            return [np.asarray(value) for value in session.run(list(fetches), feeds)]
        except self._tensorflow.errors.OpError as error:
            raise ValueError(_reason(str(error))) from None

    def _session(self, number: int, optimised: bool, fresh: bool) -> Any:
        found = self._sessions.get((number, optimised))
        if found is not None and not fresh:
            return found
        if found is not None:
            found.close()
        made = self._tensorflow.compat.v1.Session(graph=self._graphs[number], config=self._configuration(optimised))
        self._sessions[number, optimised] = made
        return made

    def _configuration(self, optimised: bool) -> Any:
        v1 = self._tensorflow.compat.v1
        configuration = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, device_count={"GPU": 0})
        if not optimised:
            options = configuration.graph_options
            options.rewrite_options.disable_meta_optimizer = True
            options.optimizer_options.opt_level = v1.OptimizerOptions.L0
        return configuration


def _reason(message: str) -> str:
    """The line of TensorFlow's message that says what went wrong, without where the graph was built."""
    beside = "Graph execution error", "Detected at node", "Node:", "[[", "Original stack trace", "File "
    lines = [line.strip() for line in message.splitlines()]
    return next((line for line in lines if line and not line.startswith(beside)), "no reason is given")


def _limit(seconds: int) -> None:
    """No memory dumps, no files, and processor time for so many seconds."""
    try:
        import resource
    except ImportError:  # a system without them
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    seconds = seconds if most == resource.RLIM_INFINITY else min(seconds, most)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def complete_functions(proto: Any) -> None:
    """Spell results inside functions as TensorFlow does, `node:output:number` for `node:number`, and say their types."""
    signatures = {function.signature.name: function.signature for function in proto.library.function}
    for function in proto.library.function:
        arguments = {argument.name: argument.type for argument in function.signature.input_arg}
        results: dict[str, tuple[str, int]] = {name: (name, type) for name, type in arguments.items()}
        for node in function.node_def:
            for index, (output, type) in enumerate(_outputs(node, signatures)):
                results[f"{node.name}:{index}"] = f"{node.name}:{output}", type
        for node in function.node_def:
            node.input[:] = [text if text.startswith("^") else results[text][0] for text in node.input]
        for argument in function.signature.output_arg:
            function.ret[argument.name], argument.type = results[function.ret[argument.name]]


def _outputs(node: Any, signatures: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The results of a node: the name of each with its number among those of that name, and its type."""
    from tensorflow.python.framework import op_def_registry  # pyright: ignore[reportMissingTypeStubs]

    declared = signatures.get(node.op) or op_def_registry.get(node.op)
    if declared is None:
        raise ValueError(f"TensorFlow does not know the operator {node.op}")
    found: list[tuple[str, int]] = []
    for argument in declared.output_arg:
        found.extend((f"{argument.name}:{index}", type) for index, type in enumerate(_types(node, declared, argument)))
    return found


def _types(node: Any, declared: Any, argument: Any) -> list[int]:
    """The types of the tensors that an output argument is."""

    def attribute(name: str) -> Any:
        if name in node.attr:
            return node.attr[name]
        return next(item.default_value for item in declared.attr if item.name == name)

    if argument.type_list_attr:
        return list(attribute(argument.type_list_attr).list.type)
    type = argument.type or attribute(argument.type_attr).type
    return [type] * (attribute(argument.number_attr).i if argument.number_attr else 1)


if __name__ == "__main__":
    serve(Graphs)
