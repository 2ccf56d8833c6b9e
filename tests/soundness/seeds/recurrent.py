"""RNN, GRU and LSTM: every attribute, both opset generations, sequences of different lengths.

onnx.reference knows Tanh and Affine only and ignores clip, sequence_lens and input_forget: ONNX Runtime judges those. Its
GRU and LSTM evaluate Tanh by a rational function that exceeds 1 by a unit in the last place, which the default target does
not grant: there, Tanh is written as ScaledTanh with both parameters 1, which they evaluate as the C library does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.soundness.seeds.seed import Seed, seed

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def layer(
    operator: str,
    attributes: dict[str, Any] | None = None,
    *,
    steps: int = 3,
    batch: int = 2,
    features: int = 3,
    hidden: int = 2,
    bias: bool = True,
    initial: bool = True,
    lengths: tuple[int, ...] | None = None,
    peepholes: bool = False,
    opset: int = 14,
    oracle: str = "reference",
    number: int = 0,
    weights_vary: bool = True,
) -> Seed:
    """A small layer with random weights."""
    rng = np.random.default_rng([number, steps, hidden])
    attributes = {"hidden_size": hidden, **(attributes or {})}
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    if oracle == "runtime":
        attributes = _exact_tanh(operator, attributes, directions)
    gates = GATES[operator]

    def numbers(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    x = numbers(steps, batch, features)
    state = (directions, batch, hidden)
    if attributes.get("layout"):
        x, state = numbers(batch, steps, features), (batch, directions, hidden)
    inputs: list[Any] = [x, numbers(directions, gates * hidden, features), numbers(directions, gates * hidden, hidden)]
    inputs.append(numbers(directions, 2 * gates * hidden) if bias else None)
    inputs.append(None if lengths is None else np.array(lengths, np.int32))
    inputs.extend(numbers(*state) if initial else None for _ in range(STATES[operator]))
    if peepholes:
        inputs.append(numbers(directions, 3 * hidden))
    while inputs[-1] is None:
        inputs.pop()
    return seed(
        operator,
        inputs,
        attributes,
        opset=opset,
        outputs=1 + STATES[operator],
        oracle=oracle,
        vary=None if weights_vary else [0, *range(5, len(inputs))],
        name=f"{operator.lower()}-{number}-{'-'.join(f'{k}={v}' for k, v in attributes.items())}-{lengths}",
    )


def _exact_tanh(operator: str, attributes: dict[str, Any], directions: int) -> dict[str, Any]:
    names = attributes.get("activations", DEFAULTS[operator] * directions)
    parameters = {"activation_alpha": [], "activation_beta": []}
    left = {key: list(attributes.get(key, ())) for key in parameters}
    for name in names:
        for values, given in zip(parameters.values(), left.values()):
            if name == "Tanh":
                values.append(1.0)
            elif given:
                values.append(given.pop(0))
    names = ["ScaledTanh" if name == "Tanh" else name for name in names]
    return {**attributes, "activations": names, **{k: v for k, v in parameters.items() if v}}


SEEDS: list[Seed] = []
for _number, _operator in enumerate(("RNN", "GRU", "LSTM")):
    SEEDS += [
        layer(_operator, number=_number, opset=7),
        layer(_operator, number=_number + 10, opset=22, weights_vary=False, steps=6),
        layer(_operator, {"direction": "reverse"}, number=_number + 20, bias=False, weights_vary=False),
        layer(_operator, {"direction": "bidirectional"}, number=_number + 30, initial=False),
        layer(_operator, {"layout": 1}, number=_number + 40, weights_vary=False),
        layer(_operator, {"layout": 1, "direction": "bidirectional"}, number=_number + 45, weights_vary=False),
        layer(_operator, {"clip": 0.5}, number=_number + 50, oracle="runtime", weights_vary=False),
        layer(_operator, {"clip": 0.5}, number=_number + 55, oracle="runtime", steps=1),
        layer(_operator, number=_number + 60, lengths=(1, 3), oracle="runtime", weights_vary=False),
        layer(_operator, {"direction": "reverse"}, number=_number + 70, lengths=(2, 3, 1), batch=3, oracle="runtime"),
        layer(_operator, {"direction": "bidirectional"}, number=_number + 80, lengths=(4, 2), steps=4, oracle="runtime"),
        layer(_operator, number=_number + 90, steps=1, hidden=1, features=1, batch=1),
    ]
_PARAMETERS = {
    "Relu": (None, None),
    "Tanh": (None, None),
    "Sigmoid": (None, None),
    "Affine": (0.5, 0.25),
    "LeakyRelu": (0.1, None),
    "ThresholdedRelu": (0.5, None),
    "ScaledTanh": (1.5, 0.75),
    "HardSigmoid": (0.3, 0.4),
    "Elu": (1.5, None),
    "Softsign": (None, None),
    "Softplus": (None, None),
}
for _number, (_name, (_alpha, _beta)) in enumerate(_PARAMETERS.items()):
    _attributes: dict[str, Any] = {"activations": [_name]}
    if _alpha is not None:
        _attributes["activation_alpha"] = [_alpha]
    if _beta is not None:
        _attributes["activation_beta"] = [_beta]
    SEEDS.append(layer("RNN", _attributes, number=100 + _number, oracle="runtime"))
    for _gates, _operator in ((["Sigmoid", _name], "GRU"), (["Sigmoid", "Tanh", _name], "LSTM")):
        SEEDS.append(layer(_operator, {**_attributes, "activations": _gates}, number=120 + _number, oracle="runtime"))
    SEEDS.append(layer("GRU", {**_attributes, "activations": [_name, "Tanh"]}, number=140 + _number, oracle="runtime"))
    SEEDS.append(layer("LSTM", {**_attributes, "activations": [_name, "Tanh", "Tanh"]}, number=160 + _number, oracle="runtime"))
SEEDS += [
    layer("RNN", {"activations": ["LeakyRelu"]}, number=201, oracle="runtime"),
    layer("RNN", {"activations": ["HardSigmoid"]}, number=202, oracle="runtime"),
    layer("RNN", {"activations": ["Relu"]}, number=203, steps=20, oracle="runtime", weights_vary=False),
    layer("GRU", {"linear_before_reset": 1}, number=210),
    layer("GRU", {"linear_before_reset": 1, "direction": "reverse"}, number=211, weights_vary=False, steps=5),
    layer("GRU", {"linear_before_reset": 1, "clip": 1.0}, number=212, oracle="runtime"),
    layer("LSTM", number=220, peepholes=True),
    layer("LSTM", number=221, peepholes=True, weights_vary=False, steps=6),
    layer("LSTM", {"input_forget": 1}, number=222, oracle="runtime"),
    layer("LSTM", {"input_forget": 1, "clip": 0.7}, number=223, peepholes=True, oracle="runtime"),
    layer("LSTM", {"direction": "bidirectional"}, number=224, peepholes=True, steps=2),
    layer(
        "LSTM",
        {
            "direction": "bidirectional",
            "activations": ["HardSigmoid", "Tanh", "LeakyRelu", "Sigmoid", "ScaledTanh", "Softsign"],
            "activation_alpha": [0.3, 0.2, 1.25],
            "activation_beta": [0.4, 0.5],
        },
        number=225,
        oracle="runtime",
    ),
]
