"""Operators of ONNX in float64: the standard's own evaluator on a copy of the model in double precision."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorproof.compare.drawing import Array, Arrays, draw_inputs, dtype_of
from tensorproof.compare.reference.layer_table import Accuracy, Disturb, NoReference
from tensorproof.compare.reference.running import chosen
from tensorproof.compare.spec import LayerSpec, TestSpec

if TYPE_CHECKING:
    import onnx

#: Operators that are no functions in the sense of `Accuracy`, in lines of words.
_NAMED: Mapping[Accuracy, str] = {
    Accuracy.EXACT: """
        Abs And ArgMax ArgMin BitShift Cast CastLike Ceil Clip Compress Concat Constant ConstantOfShape DepthToSpace Equal Expand
        EyeLike Flatten Floor Gather GatherElements GatherND GlobalMaxPool Greater GreaterOrEqual Hardmax Identity IsInf IsNaN Less
        LessOrEqual Max MaxPool Min Neg NonZero Not OneHot Or Pad ReduceMax ReduceMin Relu Reshape ReverseSequence Round
        ScatterElements ScatterND Shape Sign Size Slice SpaceToDepth Split Squeeze ThresholdedRelu Tile TopK Transpose Trilu Unique
        Unsqueeze Where Xor""",
    Accuracy.ROUNDED: "Add Sub Mul Div Sum Mean LeakyRelu PRelu HardSigmoid HardSwish Shrink Softsign Reciprocal Sqrt",
    Accuracy.SUM: """
        AveragePool Conv ConvTranspose CumSum Einsum Gemm GlobalAveragePool GlobalLpPool GridSample LpPool LRN MatMul Resize
        ReduceL1 ReduceL2 ReduceMean ReduceProd ReduceSum ReduceSumSquare ReduceLogSum""",
    Accuracy.NORMALISED: """
        BatchNormalization GroupNormalization InstanceNormalization LayerNormalization LpNormalization MeanVarianceNormalization""",
    Accuracy.RECURRENT: "GRU LSTM RNN",
}
_CLASSES = {kind: accuracy for accuracy, words in _NAMED.items() for kind in words.split()}
#: Operators that draw random numbers.
_RANDOM = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def operator_accuracy(layer: LayerSpec) -> Accuracy:
    """The class of an operator; those that no list names are taken for functions."""
    if layer.kind == "Resize" and layer.parameters.get("mode", "nearest") == "nearest":
        return Accuracy.EXACT
    return _CLASSES.get(layer.kind, Accuracy.FUNCTION)


def operator_terms(test: TestSpec, layer: LayerSpec, usual: int) -> int:
    """The number of terms of a sum, by the shapes of drawn weights, or of the network's input where it goes straight in."""
    described = [cast("Mapping[str, Any]", value) for value in layer.parameters.values() if isinstance(value, Mapping)]
    shapes = [tuple(value["shape"]) for value in described if "shape" in value]
    kernels = [math.prod(shape) // min(shape[0], shape[-1]) for shape in shapes if len(shape) > 1 and min(shape) > 0]
    if kernels:
        return max(kernels)
    direct = [math.prod(entry.shape) for entry in test.network.inputs if entry.name in layer.inputs]
    return max([1, *direct]) if direct else usual


def run_operators(test: TestSpec, arrays: Arrays | None, wanted: Sequence[str], disturb: Disturb | None = None) -> dict[str, Array]:
    """Results of a network of ONNX operators, of inputs and weights that were rounded to the test's format."""
    from onnx.reference import ReferenceEvaluator

    from tensorproof.compare.backends.onnx_networks import onnx_model, wanted_results

    if test.phase != "inference":
        raise NoReference(test.layers[-1].kind, f"phase {test.phase}")
    for layer in test.layers:
        if layer.kind in _RANDOM:
            raise NoReference(layer.kind, "random")
    given = arrays or {}
    try:
        model = onnx_model(test, given, wanted)
        feeds: dict[str, Array] = {}
        for name, array in {**draw_inputs(test), **{name: array for name, array in given.items() if "/" not in name}}.items():
            feeds[name] = _doubled(name, array, test.dtype, disturb)
        _double(model, test.dtype, disturb)
        names = wanted_results(test.network, wanted)
        with np.errstate(all="ignore"):
            results = cast("list[Array]", ReferenceEvaluator(model).run(names, feeds))
    except NoReference:
        raise
    except Exception as error:  # whatever the evaluator raises about a model that makes no sense
        raise NoReference(test.layers[-1].kind, f"cannot be computed: {type(error).__name__}: {error}") from error
    values = {name: np.asarray(result) for name, result in zip(names, results, strict=True)}
    wide = {name: value.astype(np.float64) if value.dtype.kind == "f" else value for name, value in values.items()}
    return chosen(wide, wanted)


def _doubled(name: str, array: Array, dtype: str, disturb: Disturb | None) -> Array:
    """A floating array rounded to a format, widened, and moved if asked; others as they are."""
    if array.dtype.kind in "biu" or array.dtype.kind == "S":
        return array
    with np.errstate(over="ignore"):
        wide = array.astype(dtype_of(dtype)).astype(np.float64)
    return wide if disturb is None else disturb(name, wide)


def _double(model: onnx.ModelProto, dtype: str, disturb: Disturb | None) -> None:
    """Put a model into double precision: its inputs, outputs, weights, and casts to the test's format."""
    from onnx import TensorProto, helper, numpy_helper

    narrow = helper.np_dtype_to_tensor_dtype(dtype_of(dtype))
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == narrow:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for index, weight in enumerate(model.graph.initializer):
        if weight.data_type == narrow:
            wide = _doubled(weight.name, numpy_helper.to_array(weight), dtype, disturb)
            model.graph.initializer[index].CopyFrom(numpy_helper.from_array(wide, weight.name))
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == narrow:
                attribute.i = TensorProto.DOUBLE
            if attribute.HasField("t") and attribute.t.data_type == narrow:
                attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(np.float64)))
