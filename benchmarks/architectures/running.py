"""One form of an architecture in TensorFlow: which of its operations fail at a point, and whether points refute its facts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.architectures.architecture import UNSAFE_KINDS, Architecture, Fact, Form, Point
from tensorproof.assumptions import Declarations, Domain, domain_from_json, resolve
from tensorproof.confirm.sampling import points
from tensorproof.formats import Format, of_dtype
from tensorproof.preparing import Prepared

#: What the scan takes weights to be: the initialiser's range, or one of the wider ones.
BOXES = ("debar", "init", "ranum")

#: TensorFlow draws uniform numbers as multiples of 2**-23; normal ones are within this many deviations in any run ever made.
_RANDOM = {"RandomUniform": (0.0, 1.0 - 2.0**-23), "RandomStandardNormal": (-5.5, 5.5)}

Arrays = dict[str, npt.NDArray[Any]]
#: The domain, shape and format of everything that a run depends on.
Box = Mapping[str, tuple[Domain, tuple[int, ...], Format]]


class Running:
    """The graph, built; `operations` are those of DEBAR's kinds that its results depend on, by name."""

    def __init__(self, architecture: Architecture, form: Form) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow.compat.v1 as tf

        tf.logging.set_verbosity(tf.logging.ERROR)
        self.architecture = architecture
        self.form = form
        self.facts = architecture.facts(form)
        self._earlier: dict[str, set[str]] = {}
        self.graph = tf.Graph()
        with _dialect(architecture.resources), self.graph.as_default():
            tf.set_random_seed(1)
            results = architecture.build(form == "fixed")
            self.definition: bytes = self.graph.as_graph_def().SerializeToString()
            forward = _behind(results if isinstance(results, tuple | list) else [results])
            self.operations = {operation.name: operation for operation in forward if operation.type in UNSAFE_KINDS}
            self._variables = {v.op.name: v for v in tf.global_variables() if v.op in forward}
            self._inputs = {op.name: op.outputs[0] for op in forward if op.type == "Placeholder" or op.type in _RANDOM}
            self._news = {name: tf.placeholder(v.dtype.base_dtype, v.shape) for name, v in self._variables.items()}
            self._setting = tf.group(*(tf.assign(v, self._news[name]) for name, v in self._variables.items()))
        self._sessions = [tf.Session(graph=self.graph, config=_configuration(optimised)) for optimised in (False, True)]

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *about: object) -> None:
        for session in self._sessions:
            session.close()

    def fact(self, operation: str) -> Fact:
        """The one fact about an operation."""
        (found,) = [fact for fact in self.facts if fact.is_about(operation)]
        return found

    def prepared(self) -> Prepared:
        """The graph as a check reads it, from a file."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{self.architecture.name}.pb"
            file.write_bytes(self.definition)
            return Prepared.of(file, ranges=dict(self.architecture.ranges), cache=False)

    def box(self, prepared: Prepared, weights: str) -> Box:
        """What inputs, random operations and variables may be."""
        (assumptions, *_), _ = resolve(prepared.graph, Declarations(prepared.declared.domains, weights=weights))
        ranges = {prepared.graph.name_of(number): domain for number, domain in assumptions.weights.items()}
        found: dict[str, tuple[Domain, tuple[int, ...], Format]] = {}
        for name, tensor in self._inputs.items():
            kind = tensor.op.type
            given = _RANDOM[kind] if kind in _RANDOM else self.architecture.ranges[name]
            found[name] = domain_from_json(given, name), tuple(tensor.shape.as_list()), _format(tensor)
        for name, variable in self._variables.items():
            found[name] = ranges[name], tuple(variable.shape.as_list()), _format(variable)
        return found

    def failing(self, values: Mapping[str, npt.NDArray[Any]]) -> set[str]:
        """The operations that fail at values, as the graph is written or as TensorFlow rewrites it.

        One that fails behind another is a consequence: a logarithm of 0 that is the power of the minus infinity before it.
        """
        wanted = self._wanted()
        feeds = {tensor: values[name] for name, tensor in self._inputs.items()}
        news = {self._news[name]: values[name] for name in self._variables}
        found: set[str] = set()
        for session in self._sessions:
            if news:
                session.run(self._setting, news)
            seen = session.run(wanted, feeds)
            broken = {name for name, (_, result) in seen.items() if not _is_finite(result)}
            found |= {name for name in broken if self._is_failure(name, *seen[name]) and not broken & self._before(name)}
        return found

    def _before(self, name: str) -> set[str]:
        """The operations of these kinds that one depends on. Those of loops are left out: they may fail in a later step."""
        if name not in self._earlier:
            behind = {operation.name for operation in _behind(self.operations[name].inputs)} & set(self.operations)
            self._earlier[name] = {other for other in behind - {name} if self.fact(other).seen is None}
        return self._earlier[name]

    def at(self, point: Point, box: Box) -> Arrays:
        """The values of a point; what it does not name is as near to 0 as it may be."""
        unknown = set(point) - set(box)
        assert not unknown, f"{self.architecture.name}: nothing that matters is called {', '.join(sorted(unknown))}"
        return {
            name: np.broadcast_to(np.asarray(point.get(name, _plain(domain, shape)), format.dtype), shape)
            for name, (domain, shape, format) in box.items()
        }

    def refuted(self, box: Box, weights: str, runs: int, *, seed: int = 0) -> list[str]:
        """The operations that are said not to fail within this box, and did in one of that many runs."""
        safe = {name for name in self.operations if not is_true(self.fact(name), self, box)}
        found: set[str] = set()
        for values in points(seed, box, runs) if safe else ():
            found |= self.failing(values) & safe
        return [f"{self.architecture.name} ({self.form}, {weights}): {name} fails" for name in sorted(found)]

    def _wanted(self) -> dict[str, tuple[list[Any], Any]]:
        wanted: dict[str, tuple[list[Any], Any]] = {}
        for name, operation in self.operations.items():
            seen = self.fact(name).seen
            if seen is None:
                wanted[name] = list(operation.inputs), operation.outputs[0]
            else:
                wanted[name] = [self._tensor(operand) for operand in seen.operands], self._tensor(seen.result)
        return wanted

    def _tensor(self, name: str) -> Any:
        return self.graph.get_tensor_by_name(f"{name}:0")

    def _is_failure(self, name: str, operands: Sequence[Any], result: Any) -> bool:
        if self.fact(name).seen is None:
            return _is_finite(*operands) and not _is_finite(result)
        return any(_is_finite(*before) and not _is_finite(after) for *before, after in zip(*operands, result))


def is_true(fact: Fact, running: Running, box: Box) -> bool:
    """Whether operations can fail within a box: whether a point at which they do lies in it."""
    return any(_is_inside(running.at(point, box), box) for point in fact.points)


def _is_inside(values: Arrays, box: Box) -> bool:
    return all(_is_legal(values[name], domain) for name, (domain, _, _) in box.items())


def _plain(domain: Domain, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The legal values that are nearest to 0; of rows that cannot be 0, the first unit vector."""
    if domain.kind in ("box", "values"):
        return np.clip(0.0, domain.low, domain.high) if domain.kind == "box" else min(np.array(domain.values), key=abs)
    rows = np.zeros(shape)
    rows[(slice(None),) * (domain.axis % len(shape)) + (0,)] = 1.0
    return rows


def _is_legal(values: npt.NDArray[Any], domain: Domain) -> bool:
    match domain.kind:
        case "box":
            return bool((values >= np.float32(domain.low)).all() and (values <= np.float32(domain.high)).all())
        case "values":
            return bool(np.isin(values, np.asarray(domain.values, values.dtype)).all())
        case "unit-norm":
            return bool(np.allclose(np.linalg.norm(values, axis=domain.axis), 1.0, rtol=1e-6))
        case "simplex":
            return bool((values >= 0).all() and np.allclose(values.sum(axis=domain.axis), 1.0, rtol=1e-6))
        case _:
            raise AssertionError(f"points of {domain.kind} are not judged")


def _is_finite(*arrays: Any) -> bool:
    return all(bool(np.isfinite(array).all()) for array in arrays)


def _format(tensor: Any) -> Format:
    return of_dtype(np.dtype(tensor.dtype.base_dtype.as_numpy_dtype))


def _behind(results: Sequence[Any]) -> set[Any]:
    """The operations that results depend on."""
    found: set[Any] = set()
    waiting = [result.op for result in results]
    while waiting:
        operation = waiting.pop()
        if operation not in found:
            found.add(operation)
            waiting += [tensor.op for tensor in operation.inputs]
    return found


def _configuration(optimised: bool) -> Any:
    import tensorflow.compat.v1 as tf
    from tensorflow.core.protobuf import rewriter_config_pb2

    options = tf.GraphOptions()
    if not optimised:
        options.rewrite_options.CopyFrom(rewriter_config_pb2.RewriterConfig(disable_meta_optimizer=True))
        options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return tf.ConfigProto(graph_options=options, intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)


@contextmanager
def _dialect(resources: bool) -> Iterator[None]:
    """Graphs as TensorFlow 1 writes them, or with resources and functions; afterwards as before."""
    import tensorflow.compat.v1 as tf

    before = tf.resource_variables_enabled(), tf.control_flow_v2_enabled()
    try:
        _speak(resources, resources)
        yield
    finally:
        _speak(*before)


def _speak(resources: bool, functions: bool) -> None:
    import tensorflow.compat.v1 as tf

    (tf.enable_resource_variables if resources else tf.disable_resource_variables)()
    (tf.enable_control_flow_v2 if functions else tf.disable_control_flow_v2)()
