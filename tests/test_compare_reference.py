"""The float64 reference against real Keras layers, and what it says about accuracy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tensorproof.compare.backends.backend import NetworkRun, Unavailable
from tensorproof.compare.drawing import Array, draw_inputs
from tensorproof.compare.judging import judge
from tensorproof.compare.reference import NoReference, is_random, known_kinds, run_reference, sensitivity, units_of, weights_of
from tensorproof.compare.reference.activation_functions import activation_names
from tensorproof.compare.spec import InputSpec, LayerSpec, NetworkSpec, TestSpec
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet

pytestmark = pytest.mark.area("compare reference")

TORCH = BackendId("keras:torch")
FIRST = {"data_format": "channels_first"}

Shape = tuple[int, ...]
#: Shapes of the inputs, and parameters. An input that starts with "int" or "bool" is a shape of such a type.
Case = tuple[list[Any], dict[str, Any]]


def over(shapes: list[Any], *parameters: dict[str, Any]) -> list[Case]:
    return [(shapes, entry) for entry in parameters]


def inner(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"kind": kind, "parameters": parameters}


LINE, PLANE, SPACE = (2, 7, 4), (2, 7, 6, 4), (2, 5, 4, 6, 4)
SPATIAL = {1: LINE, 2: PLANE, 3: SPACE}


def convolutions(kind: str, rank: int, **more: Any) -> list[Case]:
    shape, base = SPATIAL[rank], {"kernel_size": 3, **more}
    return over(
        [shape],
        base,
        {**base, "strides": 2, "padding": "same", "activation": "relu"},
        {**base, "dilation_rate": 2 if rank < 3 else 1, "use_bias": False, "padding": "same"},
        {**base, "kernel_size": [2, 3, 1][:rank], "strides": 2, "padding": "same"},
    )


def poolings(kind: str, rank: int) -> list[Case]:
    return over(
        [SPATIAL[rank]],
        {"pool_size": 2},
        {"pool_size": 3, "strides": 2, "padding": "same"},
        {"pool_size": 2, "strides": 1, **FIRST},
        {"pool_size": [3, 2, 2][:rank], "padding": "same"},
    )


def transposed(rank: int) -> list[Case]:
    base = {"filters": 3, "kernel_size": 3}
    shape = {1: (2, 5, 4), 2: (2, 4, 5, 2), 3: (1, 3, 2, 4, 2)}[rank]
    return over(
        [shape],
        base,
        {**base, "strides": 2, "padding": "same"},
        {**base, "strides": 2, "kernel_size": 2, "padding": "same", "use_bias": False},
        {**base, "strides": 3, "kernel_size": 2},
        {**base, "strides": 2, "output_padding": 1, "padding": "same"},
        {**base, "strides": 2, "output_padding": 0, "padding": "valid", "activation": "tanh"},
        {**base, "dilation_rate": 2} if rank < 3 else base,
    )


def recurrents(**more: Any) -> list[Case]:
    base = {"units": 3, **more}
    return [
        *over(
            [LINE],
            base,
            {**base, "return_sequences": True, "go_backwards": True},
            {**base, "return_state": True, "use_bias": False, "activation": "relu"},
            {**base, "return_sequences": True, "return_state": True, "unroll": True},
        ),
        *over([LINE, "bool", (2, 7)], base, {**base, "return_sequences": True, "go_backwards": True, "return_state": True}),
    ]


CASES: dict[str, list[Case]] = {
    "Dense": over([(3, 5)], {"units": 4}, {"units": 2, "use_bias": False, "activation": "gelu"}) + over([LINE], {"units": 3}),
    "EinsumDense": over(
        [LINE],
        {"equation": "abc,cd->abd", "output_shape": [None, 5], "bias_axes": "d"},
        {"equation": "...c,cd->...d", "output_shape": 5, "activation": "relu"},
        {"equation": "abc,cde->abde", "output_shape": [None, 2, 3], "bias_axes": "e"},
        {"equation": "abc,bd->adc", "output_shape": [5, 4], "bias_axes": "d"},
    ),
    "Embedding": over(["int", (2, 5)], {"input_dim": 8, "output_dim": 3}, {"input_dim": 9, "output_dim": 2, "mask_zero": True}),
    "ReversibleEmbedding": over(
        ["int", (2, 5)], {"input_dim": 8, "output_dim": 3}, {"input_dim": 8, "output_dim": 3, "tie_weights": False}
    ),
    **{
        f"Conv{rank}D": convolutions("Conv", rank, filters=6) + over([SPATIAL[rank]], {"filters": 6, "kernel_size": 2, "groups": 2})
        for rank in (1, 2, 3)
    },
    **{f"Conv{rank}DTranspose": transposed(rank) for rank in (1, 2, 3)},
    **{f"DepthwiseConv{rank}D": convolutions("Depthwise", rank, depth_multiplier=2) for rank in (1, 2)},
    **{f"SeparableConv{rank}D": convolutions("Separable", rank, filters=3, depth_multiplier=2) for rank in (1, 2)},
    **{f"{name}Pooling{rank}D": poolings(name, rank) for name in ("Max", "Average") for rank in (1, 2, 3)},
    **{
        f"Global{name}Pooling{rank}D": over([SPATIAL[rank]], {}, {"keepdims": True, **FIRST})
        for name in ("Max", "Average")
        for rank in (1, 2, 3)
    },
    **{
        f"Adaptive{name}Pooling{rank}D": over([SPATIAL[rank]], {"output_size": 3}, {"output_size": [2, 3, 2][:rank], **FIRST})
        for name in ("Max", "Average")
        for rank in (1, 2, 3)
    },
    "BatchNormalization": over([PLANE], {}, {"axis": 1, "center": False, "epsilon": 0.1}, {"scale": False}),
    "LayerNormalization": over([PLANE], {}, {"axis": [2, 3], "epsilon": 0.1}, {"center": False}, {"scale": False, "center": False}),
    "GroupNormalization": over([PLANE], {"groups": 2}, {"groups": 7, "axis": 1}, {"groups": -1, "center": False}),
    "UnitNormalization": over([PLANE], {}, {"axis": [1, 2]}, {"axis": 1}),
    "RMSNormalization": over([PLANE], {}, {"epsilon": 0.5}),
    "SpectralNormalization": over([(3, 5)], {"layer": inner("Dense", units=3)})
    + over([PLANE], {"layer": inner("Conv2D", filters=2, kernel_size=2), "power_iterations": 2}),
    "Activation": over([LINE], *({"activation": name} for name in activation_names() if name != "sparsemax")),
    "ReLU": over(
        [LINE], {}, {"max_value": 1.0}, {"negative_slope": 0.2, "threshold": 0.5}, {"max_value": 6.0, "negative_slope": 0.1}
    ),
    "LeakyReLU": over([LINE], {}, {"negative_slope": 0.01}),
    "PReLU": over([PLANE], {}, {"shared_axes": [1, 2]}),
    "ELU": over([LINE], {}, {"alpha": 0.5}),
    "Softmax": over([LINE], {}, {"axis": 1}, {"axis": [1, 2]}),
    **{kind: over([LINE, LINE], {}) for kind in ("Subtract", "Maximum", "Minimum")},
    **{
        kind: over([LINE, LINE, LINE], {}) + over([LINE, (2, 1, 4)], {}) + over([LINE, (2, 4)], {})
        for kind in ("Add", "Multiply", "Average")
    },
    "Concatenate": over([LINE, (2, 7, 3)], {}) + over([LINE, (2, 3, 4)], {"axis": 1}),
    "Dot": over([LINE, (2, 3, 4)], {"axes": 2}, {"axes": [2, 2], "normalize": True})
    + over([(2, 4), (2, 4)], {"axes": 1}, {"axes": -1, "normalize": True})
    + over([LINE, (2, 4)], {"axes": [2, 1]})
    + over([(2, 3, 5, 4), (2, 5, 6)], {"axes": [2, 1]}),
    "Reshape": over([LINE], {"target_shape": [4, 7]}, {"target_shape": [-1, 2]}),
    "Flatten": over([PLANE], {}, FIRST) + over([(3,)], {}),
    "Permute": over([PLANE], {"dims": [3, 1, 2]}),
    "RepeatVector": over([(2, 4)], {"n": 3}),
    "Cropping1D": over([LINE], {}, {"cropping": 2}, {"cropping": [0, 3]}),
    "Cropping2D": over([PLANE], {"cropping": 1}, {"cropping": [1, 0], **FIRST}, {"cropping": [[1, 0], [0, 2]]}),
    "Cropping3D": over([SPACE], {}, {"cropping": [[0, 1], [1, 0], [2, 1]]}),
    "ZeroPadding1D": over([LINE], {}, {"padding": [0, 2]}, {"padding": 2, **FIRST}),
    "ZeroPadding2D": over([PLANE], {}, {"padding": [[1, 0], [0, 2]], **FIRST}, {"padding": [2, 1]}),
    "ZeroPadding3D": over([SPACE], {}, {"padding": [1, 0, 2]}),
    "UpSampling1D": over([LINE], {}, {"size": 3}),
    "UpSampling2D": over(
        [PLANE], {}, {"size": [3, 2], **FIRST}, {"interpolation": "bilinear"}, {"size": [2, 3], "interpolation": "bilinear"}
    ),
    "UpSampling3D": over([SPACE], {}, {"size": [1, 2, 3], **FIRST}),
    "Resizing": over(
        [PLANE],
        {"height": 5, "width": 9},
        {"height": 14, "width": 3, "interpolation": "nearest"},
        {"height": 4, "width": 8, **FIRST},
    ),
    "CenterCrop": over([PLANE], {"height": 4, "width": 3}, {"height": 2, "width": 2, **FIRST}),
    "SimpleRNN": recurrents(),
    "LSTM": recurrents(unit_forget_bias=False) + recurrents(recurrent_activation="hard_sigmoid"),
    "GRU": recurrents() + recurrents(reset_after=False) + recurrents(recurrent_activation="tanh"),
    "RNN": over(
        [LINE],
        {"cell": inner("SimpleRNNCell", units=3), "return_sequences": True},
        {"cell": inner("LSTMCell", units=3, activation="relu"), "return_state": True},
        {
            "cell": [inner("LSTMCell", units=4), inner("GRUCell", units=3, reset_after=False)],
            "return_state": True,
            "go_backwards": True,
        },
    )
    + over([LINE, "bool", (2, 7)], {"cell": inner("GRUCell", units=3), "return_sequences": True, "zero_output_for_mask": True}),
    "SimpleRNNCell": over([(2, 4), (2, 3)], {"units": 3}),
    "GRUCell": over([(2, 4), (2, 3)], {"units": 3}, {"units": 3, "reset_after": False}),
    "LSTMCell": over([(2, 4), (2, 3), (2, 3)], {"units": 3}),
    **{
        f"ConvLSTM{rank}D": over(
            [{1: (2, 3, 6, 2), 2: (2, 3, 5, 4, 2), 3: (1, 2, 4, 3, 4, 2)}[rank]],
            {"filters": 2, "kernel_size": 3},
            {"filters": 3, "kernel_size": 2, "strides": 2, "padding": "same", "return_sequences": True, "go_backwards": True},
            {"filters": 2, "kernel_size": 2, "return_state": True, "recurrent_activation": "hard_sigmoid", "use_bias": False},
        )
        for rank in (1, 2, 3)
    },
    "Bidirectional": [
        *over(
            [LINE],
            {"layer": inner("LSTM", units=3)},
            {"layer": inner("GRU", units=3, return_sequences=True), "merge_mode": "sum"},
            {"layer": inner("SimpleRNN", units=2, return_sequences=True, return_state=True), "merge_mode": None},
            {"layer": inner("LSTM", units=2, return_state=True), "merge_mode": "mul"},
            {"layer": inner("GRU", units=2, use_bias=False), "merge_mode": "ave"},
        ),
        *over([LINE, "bool", (2, 7)], {"layer": inner("LSTM", units=3, return_sequences=True)}, {"layer": inner("GRU", units=3)}),
    ],
    "TimeDistributed": over([LINE], {"layer": inner("Dense", units=3)}, {"layer": inner("LayerNormalization")})
    + over([(2, 3, 6, 5, 2)], {"layer": inner("Conv2D", filters=2, kernel_size=2)}),
    "Attention": [
        *over([LINE, (2, 5, 4)], {}, {"use_scale": True}, {"score_mode": "concat"}, {"score_mode": "concat", "use_scale": True}),
        *over([LINE, (2, 5, 4), (2, 5, 4)], {"call:use_causal_mask": True, "call:return_attention_scores": True}),
        *over([LINE, LINE, "bool", (2, 7), "bool", (2, 7)], {}),
    ],
    "AdditiveAttention": over([LINE, (2, 5, 4)], {}, {"use_scale": False}, {"call:return_attention_scores": True}),
    "MultiHeadAttention": [
        *over(
            [LINE, (2, 5, 4)],
            {"num_heads": 2, "key_dim": 3},
            {"num_heads": 2, "key_dim": 3, "value_dim": 5, "use_bias": False, "output_shape": 6},
            {"num_heads": 1, "key_dim": 2, "call:return_attention_scores": True, "use_gate": True},
        ),
        *over([LINE, LINE, LINE], {"num_heads": 2, "key_dim": 3, "call:use_causal_mask": True, "sliding_window": 3}),
        *over([(2, 3, 5, 4), (2, 3, 5, 4)], {"num_heads": 2, "key_dim": 3, "attention_axes": [2]}, {"num_heads": 2, "key_dim": 2}),
    ],
    "GroupQueryAttention": over(
        [LINE, (2, 5, 4)],
        {"head_dim": 3, "num_query_heads": 4, "num_key_value_heads": 2},
        {"head_dim": 3, "num_query_heads": 4, "num_key_value_heads": 1, "use_bias": False, "use_gate": True},
        {"head_dim": 2, "num_query_heads": 2, "num_key_value_heads": 2, "call:return_attention_scores": True},
    ),
    **{kind: over([LINE], {"rate": 0.5}) for kind in ("Dropout", "AlphaDropout", "GaussianDropout", "SpatialDropout1D")},
    "SpatialDropout2D": over([PLANE], {"rate": 0.5}),
    "SpatialDropout3D": over([SPACE], {"rate": 0.5}),
    "GaussianNoise": over([LINE], {"stddev": 1.0}),
    "ActivityRegularization": over([LINE], {"l1": 0.1}),
    "Identity": over([LINE], {}),
    "Masking": over([LINE], {}, {"mask_value": 1.0}),
    "Rescaling": over([LINE], {"scale": 0.5}, {"scale": [1.0, 2.0, 3.0, 4.0], "offset": -1.0}),
    "Normalization": over(
        [LINE],
        {"mean": 1.0, "variance": 4.0},
        {"mean": [0.0, 1.0, 2.0, 3.0], "variance": [1.0, 2.0, 3.0, 4.0], "invert": True},
        {"axis": None, "mean": 0.5, "variance": 2.0},
    ),
    "CategoryEncoding": over(
        ["int", (3, 5)], {"num_tokens": 8}, {"num_tokens": 9, "output_mode": "count"}, {"num_tokens": 8, "output_mode": "one_hot"}
    ),
    "Discretization": over(
        [(3, 5)],
        {"bin_boundaries": [-0.5, 0.0, 1.0]},
        {"bin_boundaries": [0.0, 0.5], "output_mode": "one_hot"},
        {"bin_boundaries": [0.0], "output_mode": "count"},
    ),
}

#: Other names of kinds above.
ALIASES = {"Convolution": "Conv", "SeparableConvolution": "SeparableConv", "MaxPool": "MaxPooling", "AvgPool": "AveragePooling"}
ALIASES |= {"GlobalMaxPool": "GlobalMaxPooling", "GlobalAvgPool": "GlobalAveragePooling"}


def is_alias(kind: str) -> bool:
    return kind.removesuffix("Transpose")[:-2] in ALIASES


def spec_of(kind: str, case: Case, *, seed: int = 1, dtype: str = "float32", phase: Any = "inference") -> TestSpec:
    entries, parameters = case
    inputs: list[InputSpec] = []
    form = ""
    for entry in entries:
        if isinstance(entry, str):
            form = entry
            continue
        name = f"x{len(inputs)}"
        if form == "int":
            inputs.append(InputSpec(name, entry, "int32", "integers", 8))
        elif form == "bool":
            inputs.append(InputSpec(name, entry, "bool", "mask"))
        else:
            inputs.append(InputSpec(name, entry))
        form = ""
    layer = LayerSpec("layer", kind, parameters, tuple(entry.name for entry in inputs))
    return TestSpec(NetworkSpec("keras", tuple(inputs), (layer,), ("layer",)), seed, dtype, phase)


def masks_for(test: TestSpec) -> dict[str, Array]:
    """Masks that leave the first step: drawn ones may hide everything."""
    drawn: dict[str, Array] = {}
    for index, entry in enumerate(test.network.inputs):
        if entry.dtype == "bool":
            mask = np.arange(entry.shape[1]) % (index + 2) != 1
            drawn[entry.name] = np.broadcast_to(mask, entry.shape).copy()
    return drawn


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet() as made:
        yield made


def test_every_layer_of_the_table_has_cases() -> None:
    assert {kind for kind in known_kinds() if not is_alias(kind)} == set(CASES)
    assert len(CASES) >= 75


#: Padded means in more than one dimension: Keras on torch repeats the border where the two sides are padded differently.
REPEATED_BORDERS = frozenset({"AveragePooling2D", "AveragePooling3D"})


@pytest.mark.parametrize("kind", sorted(CASES))
def test_layers_agree_with_keras_on_torch(fleet: Fleet, kind: str) -> None:
    for case in CASES[kind]:
        if kind in REPEATED_BORDERS and case[1].get("padding") == "same":
            continue
        test = spec_of(kind, case)
        arrays = masks_for(test)
        assert_agrees(test, arrays, fleet.run(TORCH, test, arrays=arrays))


def assert_agrees(test: TestSpec, arrays: dict[str, Array], run: NetworkRun) -> None:
    case = test.layers[-1].parameters
    expected = run_reference(test, arrays)
    assert run.failure is None, (case, run.failure)
    assert set(run.arrays) == set(expected), case
    for name, value in expected.items():
        found = run.arrays[name]
        assert found.shape == value.shape, (case, name)
        units = max(units_of(test, layer.name) for layer in test.layers)
        opinion = judge(found.astype(np.float32), value.astype(np.float32), units=units, reference=value)
        assert opinion.opinion == "agree", (case, name, opinion)


def test_weights_are_those_of_keras_in_order_by_name_and_by_shape() -> None:
    """Names are compared as far as drawing depends on them; in a process of its own, as Keras settles on a backend for good."""
    wanted = [(kind, case) for kind in sorted(CASES) for case in CASES[kind]]
    program = """
import json, sys
import keras
from tensorproof.compare.backends.keras_layers import call_layer, make_layer
from tensorproof.compare.spec import TestSpec
for line in sys.stdin:
    test = TestSpec.from_json(json.loads(line))
    spec = test.layers[0]
    layer = make_layer(spec, "float32")
    inputs = {e.name: keras.Input(batch_shape=e.shape, dtype=e.dtype) for e in test.network.inputs}
    masks = [inputs[e.name] for e in test.network.inputs if e.dtype == "bool"]
    call_layer(layer, spec, [inputs[e.name] for e in test.network.inputs if e.dtype != "bool"], masks, False)
    print(json.dumps([[weight.name, list(weight.shape)] for weight in layer.weights]))
"""
    tests = [spec_of(kind, case) for kind, case in wanted]
    done = subprocess.run(
        [sys.executable, "-c", program],
        input="\n".join(json.dumps(test.to_json()) for test in tests),
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(lines) == len(tests)
    for (kind, case), test, line in zip(wanted, tests, lines, strict=True):
        shapes = [entry.shape for entry in test.network.inputs if entry.dtype != "bool"]
        weights = weights_of(kind, shapes, case[1])
        real = [(effect_of(name), tuple(shape)) for name, shape in json.loads(line)]
        assert [(effect_of(weight.name), weight.shape) for weight in weights] == real, (kind, case)


def effect_of(name: str) -> str:
    """What of a name `draw_weight` looks at."""
    return next((word for word in ("variance", "gamma", "scale") if word in name), "")


def test_masks_travel_from_layer_to_layer(fleet: Fleet) -> None:
    network = NetworkSpec(
        "keras",
        (InputSpec("x", (2, 7), "int32", "integers", 4),),
        (
            LayerSpec("table", "Embedding", {"input_dim": 4, "output_dim": 3, "mask_zero": True}, ("x",)),
            LayerSpec("norm", "LayerNormalization", {}, ("table",)),
            LayerSpec("first", "LSTM", {"units": 3, "return_sequences": True}, ("norm",)),
            LayerSpec("both", "Bidirectional", {"layer": inner("GRU", units=2, return_sequences=True)}, ("first",)),
            LayerSpec("mean", "GlobalAveragePooling1D", {}, ("both",)),
        ),
        ("mean", "both"),
    )
    test = TestSpec(network, seed=4)
    arrays = {"x": np.array([[1, 0, 2, 3, 0, 0, 1], [3, 3, 0, 1, 2, 0, 0]], np.int32)}
    assert_agrees(test, arrays, fleet.run(TORCH, test, arrays=arrays))
    plain = {"x": np.where(arrays["x"] == 0, 1, arrays["x"]).astype(np.int32)}
    assert not np.allclose(run_reference(test, arrays)["mean"], run_reference(test, plain)["mean"])


@pytest.mark.parametrize("parameters", [{}, {"axis": 1, "scale": False}, {"trainable": False}])
def test_batch_normalization_in_training_uses_the_batch(fleet: Fleet, parameters: dict[str, Any]) -> None:
    test = spec_of("BatchNormalization", ([PLANE], parameters), phase="training")
    assert_agrees(test, {}, fleet.run(TORCH, test))
    moving = run_reference(spec_of("BatchNormalization", ([PLANE], parameters)))["layer"]
    assert np.allclose(moving, run_reference(test)["layer"]) == ("trainable" in parameters)


def test_padded_means_leave_the_padding_out() -> None:
    test = spec_of("AveragePooling2D", ([(1, 3, 4, 1)], {"pool_size": 2, "padding": "same", "strides": 2}))
    image = np.arange(12, dtype=np.float32).reshape(1, 3, 4, 1)
    result = run_reference(test, {"x0": image})["layer"][0, :, :, 0]
    assert result.tolist() == [[2.5, 4.5], [8.5, 10.5]]


def test_sparsemax_is_the_nearest_point_of_the_simplex() -> None:
    test = spec_of("Activation", ([(50, 6)], {"activation": "sparsemax"}))
    point = run_reference(test)["layer"]
    x = draw_inputs(test)["x0"].astype(np.float64)
    assert np.allclose(point.sum(axis=-1), 1.0) and (point >= 0).all()
    others = np.random.default_rng(0).dirichlet(np.ones(6), size=(200, 50))
    assert (np.square(point - x).sum(-1) <= np.square(others - x).sum(-1)).all()


def test_what_is_random_has_no_reference_in_training() -> None:
    assert is_random("Dropout") and is_random("RandomFlip") and not is_random("Dense")
    assert is_random("LSTM", {"units": 3, "dropout": 0.5}) and not is_random("LSTM", {"units": 3, "dropout": 0.0})
    assert is_random("TimeDistributed", {"layer": inner("Dropout", rate=0.5)})
    with pytest.raises(NoReference, match="random in training"):
        run_reference(spec_of("Dropout", ([LINE], {"rate": 0.5}), phase="training"))
    assert run_reference(spec_of("Dropout", ([LINE], {"rate": 0.0}), phase="training"))


@pytest.mark.parametrize(
    ("kind", "parameters", "reason"),
    [
        ("Dense", {"units": 3, "lora_rank": 2}, "parameter lora_rank"),
        ("Dense", {"units": 3, "activation": "wave"}, "activation 'wave'"),
        ("Dense", {}, "no value for units"),
        ("Conv1D", {"filters": 2, "kernel_size": 3, "padding": "full"}, "padding='full'"),
        ("Conv1D", {"filters": 2, "kernel_size": 99}, "cannot be computed"),
        ("LSTM", {"units": 3, "stateful": True}, "stateful=True"),
        ("BatchNormalization", {"renorm": True}, "renorm=True"),
        ("Lambda", {"function": "f"}, "not in the table"),
        ("Bidirectional", {"layer": inner("Dense", units=3)}, "inner layer"),
    ],
)
def test_what_is_not_known_has_no_reference(kind: str, parameters: dict[str, Any], reason: str) -> None:
    with pytest.raises(NoReference, match=reason):
        run_reference(spec_of(kind, ([LINE], parameters)))


def test_parameters_without_effect_change_nothing() -> None:
    plain = run_reference(spec_of("LSTM", ([LINE], {"units": 3})))["layer"]
    named = {"units": 3, "kernel_initializer": "zeros", "bias_regularizer": "l2", "unroll": True, "name": "other", "seed": 3}
    assert np.array_equal(plain, run_reference(spec_of("LSTM", ([LINE], named)))["layer"])


def test_a_sum_that_cancels_is_sensitive_and_a_relu_is_not() -> None:
    sums = spec_of("Dense", ([(1, 2)], {"units": 1, "use_bias": False}))
    large = {"x0": np.array([[1.0, 1.0]], np.float32), "layer/0": np.array([[1e4], [-1e4 + 1e-2]], np.float32)}
    unit = np.finfo(np.float32).eps
    (value,) = run_reference(sums, large).values()
    (moved,) = sensitivity(sums, large, draws=8).values()
    assert moved.max() > 1e4 * abs(float(value[0, 0])) * unit
    rectified = spec_of("ReLU", ([LINE], {}))
    (steady,) = run_reference(rectified).values()
    (moved,) = sensitivity(rectified).values()
    assert (moved <= unit * np.abs(steady)).all() and moved.any()


def test_what_a_layer_rounds_inside_counts() -> None:
    """Groups of one channel and one place: every element is its group's mean, which no framework subtracts exactly."""
    test = spec_of("GroupNormalization", ([(3, 5)], {"groups": -1, "epsilon": 1e-5, "center": False, "scale": False}))
    assert not run_reference(test)["layer"].any()
    unit = np.finfo(np.float32).eps
    assert sensitivity(test)["layer"].max() > 50 * unit


def test_inputs_and_weights_are_those_of_the_format() -> None:
    test = spec_of("Dense", ([(3, 5)], {"units": 4}), dtype="float16")
    given = {"x0": np.full((3, 5), 1 / 3, np.float64)}
    rounded = {"x0": given["x0"].astype(np.float16).astype(np.float64)}
    assert np.array_equal(run_reference(test, given)["layer"], run_reference(test, rounded)["layer"])
    assert run_reference(test)["layer"].dtype == np.float64


def test_units_are_none_for_what_moves_data_and_grow_with_sums() -> None:
    def units(kind: str, shapes: list[Any], parameters: dict[str, Any], dtype: str = "float32") -> float:
        return units_of(spec_of(kind, (shapes, parameters), dtype=dtype), "layer")

    assert units("MaxPooling2D", [PLANE], {}) == units("Activation", [LINE], {"activation": "relu"}) == 0
    assert units("Activation", [LINE], {"activation": "gelu"}) > units("LeakyReLU", [LINE], {}) > 0
    assert units("Dense", [(2, 512)], {"units": 2}) > units("Dense", [(2, 4)], {"units": 2})
    assert units("Dense", [(2, 512)], {"units": 2}, "bfloat16") < units("Dense", [(2, 512)], {"units": 2})
    assert units("TimeDistributed", [LINE], {"layer": inner("LayerNormalization")}) == units("LayerNormalization", [LINE], {})


def onnx_test(kind: str, parameters: dict[str, Any], *shapes: Shape) -> TestSpec:
    inputs = tuple(InputSpec(f"x{index}", shape) for index, shape in enumerate(shapes))
    layer = LayerSpec("node", kind, parameters, tuple(entry.name for entry in inputs))
    return TestSpec(NetworkSpec("onnx", inputs, (layer,), ("node",)), seed=3)


def test_operators_of_onnx_are_computed_in_double_precision(fleet: Fleet) -> None:
    runtime = BackendId("onnxruntime")
    for test in (
        onnx_test("Conv", {"@1": {"shape": [3, 2, 3, 3]}, "pads": [1, 1, 0, 0], "strides": [2, 1]}, (1, 2, 5, 6)),
        onnx_test("LayerNormalization", {"@1": {"shape": [4], "name": "gamma"}, "axis": -1}, (2, 3, 4)),
        onnx_test("Softmax", {"axis": 1}, (2, 3, 4)),
        onnx_test("Transpose", {"perm": [1, 0, 2]}, (2, 3, 4)),
        onnx_test("MatMul", {}, (3, 5), (5, 4)),
    ):
        (value,) = run_reference(test).values()
        assert value.dtype == np.float64
        exact = onnx_test("Transpose", {"perm": [1, 0, 2]}, (2, 3, 4)).layers[0].kind == test.layers[0].kind
        assert (units_of(test, "node") == 0) == exact
        run = fleet.run(runtime, test)
        assert run.failure is None, run.failure
        opinion = judge(run.arrays["node"], value.astype(np.float32), units=units_of(test, "node"), reference=value)
        assert opinion.opinion == "agree", (test.layers[0].kind, opinion)
        assert sensitivity(test)["node"].any()
    with pytest.raises(NoReference):
        run_reference(onnx_test("MatMul", {}, (3, 5), (4, 4)))


def test_the_reference_is_a_backend_too(fleet: Fleet) -> None:
    test = spec_of("Dense", ([(3, 5)], {"units": 4}), dtype="float16")
    run = fleet.run(BackendId("float64"), test)
    assert run.arrays["layer"].dtype == np.float16
    assert np.array_equal(run.arrays["layer"], run_reference(test)["layer"].astype(np.float16))
    with pytest.raises(Unavailable):
        fleet.run(BackendId("float64"), spec_of("Lambda", ([LINE], {})))
