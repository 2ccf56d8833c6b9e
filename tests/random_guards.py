"""Random graphs full of guards, reconverging values and hazards, and the nodes of them that fail in real runs."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort

from tests.models import model

UNARY = ("Neg", "Abs", "Relu", "Exp", "Log", "Sqrt", "Reciprocal", "Sigmoid", "Tanh", "Identity")
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
COMPARISONS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")
REDUCTIONS = ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean")
CONSTANTS = (0.0, 1.0, -1.0, 0.5, 0.1, 2.0)
SHAPES = ("3,4", "4", "", "3,1")


def random_graph(seed: int, nodes: int = 8) -> onnx.ModelProto:
    """Operators on random earlier values; shapes broadcast against each other."""
    rng = np.random.default_rng(seed)
    inputs = [f"float[{shape}] {name}" if shape else f"float {name}" for name, shape in zip("ab", rng.choice(SHAPES, 2))]
    values, lines = ["a", "b"], [f"k{i} = Constant<value_float={float(v)}>()" for i, v in enumerate(CONSTANTS)]
    constants = [f"k{i}" for i in range(len(CONSTANTS))]
    for index in range(nodes):
        # Recent values more often, so that chains grow.
        def pick() -> str:
            return str(values[max(0, len(values) - 1 - int(rng.exponential(2.0)))])

        def other() -> str:
            return str(rng.choice(constants)) if rng.random() < 0.5 else pick()

        name, kind = f"v{index}", rng.random()
        if kind < 0.3:
            lines.append(f"{name} = {rng.choice(UNARY)}({pick()})")
        elif kind < 0.65:
            lines.append(f"{name} = {rng.choice(BINARY)}({pick()}, {other()})")
        elif kind < 0.9:
            x = pick()
            lines.append(f"c{index} = {rng.choice(COMPARISONS)}({x}, {other()})")
            lines.append(f"{name} = Where(c{index}, {x if rng.random() < 0.6 else pick()}, {other()})")
        else:
            lines.append(f"{name} = {rng.choice(REDUCTIONS)}<keepdims=0>({pick()})")
        values.append(name)
    return model(f"({', '.join(inputs)}) => (float {values[-1]})", "\n".join(lines))


def failing(proto: onnx.ModelProto, low: float, high: float, runs: int, seed: int) -> set[str]:
    """Nodes that gave a value that is not finite where nothing before them had, over random runs, zeros and ends among them."""
    names = [node.output[0] for node in proto.graph.node if node.op_type != "Constant"]
    shown = onnx.ModelProto()
    shown.CopyFrom(proto)
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(shown.SerializeToString(), options)
    shapes = {info.name: tuple(d.dim_value for d in info.type.tensor_type.shape.dim) for info in proto.graph.input}
    rng = np.random.default_rng(seed)
    special = np.array([low, high, 0.0, 1.0, -1.0, 0.5, 0.1, 2.0, 1e-20, -1e-20, 1e-45], np.float32)
    special = special[(special >= low) & (special <= high)]
    found: set[str] = set()
    for run in range(runs):
        fed: dict[str, np.ndarray] = {}
        for name, shape in shapes.items():
            points = rng.uniform(low, high, shape)
            fed[name] = np.where(rng.random(shape) < (run % 3) / 2, rng.choice(special, shape), points).astype(np.float32)
        values = {**fed, **dict(zip(names, session.run(names, fed)))}
        behind: set[str] = set()
        for node in proto.graph.node:
            result = np.asarray(values.get(node.output[0], 0.0))
            if not behind.isdisjoint(node.input):
                behind.add(node.output[0])
            elif result.dtype.kind == "f" and not np.isfinite(result).all():
                behind.add(node.output[0])
                found.add(node.output[0])
    return found
