"""Convolutions: strides, dilations, groups, pads and ranks that the node cases miss; old versions; contrib operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.soundness.seeds.seed import Seed, seed

_rng = np.random.default_rng(20)


def _normal(*shape: int) -> Any:
    return _rng.standard_normal(shape).astype(np.float32)


_CONV: list[tuple[list[Any], dict[str, Any], int]] = [
    ([_normal(2, 3, 6), _normal(4, 3, 3), _normal(4)], {}, 22),
    ([_normal(1, 4, 7), _normal(6, 2, 3), _normal(6)], {"group": 2, "pads": [2, 1], "strides": [2]}, 11),
    ([_normal(1, 3, 9), _normal(3, 1, 3)], {"group": 3, "dilations": [2], "pads": [2, 2]}, 7),
    ([_normal(2, 2, 5, 4), _normal(3, 2, 2, 3), _normal(3)], {"strides": [2, 1], "pads": [0, 1, 1, 0]}, 22),
    ([_normal(1, 2, 5, 6), _normal(2, 2, 3, 2)], {"auto_pad": "SAME_UPPER", "strides": [2, 3]}, 11),
    ([_normal(1, 2, 6, 5), _normal(2, 2, 2, 3)], {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, 22),
    ([_normal(1, 2, 5, 5), _normal(2, 2, 3, 3)], {"auto_pad": "VALID", "strides": [2, 2]}, 22),
    ([_normal(1, 4, 4, 4), _normal(4, 1, 3, 3), _normal(4)], {"group": 4, "pads": [1, 1, 1, 1]}, 22),
    ([_normal(1, 1, 7, 7), _normal(1, 1, 3, 3)], {"dilations": [2, 3], "pads": [2, 3, 2, 3]}, 22),
    ([_normal(1, 2, 2, 2), _normal(1, 2, 5, 5)], {"pads": [2, 2, 2, 2]}, 22),
    ([_normal(1, 2, 1, 4), _normal(2, 2, 3, 1)], {"pads": [1, 0, 1, 0]}, 22),
    ([_normal(1, 2, 3, 4, 3), _normal(2, 2, 2, 2, 2), _normal(2)], {"pads": [1, 0, 0, 0, 1, 1]}, 22),
    ([_normal(1, 3, 4, 4), _normal(5, 3, 1, 1), _normal(5)], {"kernel_shape": [1, 1]}, 22),
    ([_normal(0, 2, 4, 4), _normal(3, 2, 3, 3), _normal(3)], {}, 22),
]

_TRANSPOSED: list[tuple[list[Any], dict[str, Any], int]] = [
    ([_normal(2, 3, 4), _normal(3, 2, 3), _normal(2)], {"strides": [2]}, 22),
    ([_normal(1, 4, 3), _normal(4, 2, 3), _normal(4)], {"group": 2, "strides": [3], "pads": [1, 1]}, 11),
    ([_normal(1, 3, 3, 3), _normal(3, 1, 2, 2)], {"group": 3, "strides": [2, 2]}, 7),
    ([_normal(1, 2, 3, 3), _normal(2, 2, 3, 3)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, 22),
    ([_normal(1, 2, 3, 3), _normal(2, 2, 3, 2)], {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, 22),
    ([_normal(1, 1, 3, 3), _normal(1, 2, 3, 3)], {"output_shape": [8, 6], "strides": [2, 2]}, 22),
    ([_normal(1, 1, 3, 3), _normal(1, 2, 3, 3)], {"output_padding": [1, 0], "strides": [2, 2], "dilations": [2, 1]}, 22),
    ([_normal(1, 2, 1, 3), _normal(2, 1, 3, 2), _normal(1)], {"strides": [1, 3]}, 22),
]

_COL2IM: list[tuple[list[Any], dict[str, Any]]] = [
    ([_normal(1, 8, 9), np.array([4, 4]), np.array([2, 2])], {}),
    ([_normal(2, 4, 4), np.array([4, 4]), np.array([2, 2])], {"strides": [2, 2]}),
    ([_normal(1, 6, 12), np.array([4, 3]), np.array([3, 2])], {"pads": [1, 1, 1, 0], "dilations": [1, 1]}),
    ([_normal(1, 4, 6), np.array([5, 4]), np.array([2, 2])], {"dilations": [2, 2]}),
]

_FUSED: list[tuple[list[Any], dict[str, Any]]] = [
    ([_normal(1, 2, 5, 5), _normal(3, 2, 3, 3), _normal(3)], {"activation": "Relu"}),
    ([_normal(1, 2, 5, 5), _normal(3, 2, 3, 3), _normal(3), _normal(1, 3, 3, 3)], {"activation": "Relu"}),
    ([_normal(1, 2, 5, 5), _normal(4, 1, 3, 3)], {"activation": "LeakyRelu", "activation_params": [0.1], "group": 2}),
    ([_normal(1, 2, 5), _normal(2, 2, 3)], {"activation": "Clip", "activation_params": [-1.0, 1.0], "pads": [1, 1]}),
    ([_normal(1, 2, 4, 4), _normal(2, 2, 3, 3)], {"activation": "HardSigmoid", "activation_params": [0.2, 0.5]}),
    ([_normal(1, 2, 4, 4), _normal(2, 2, 2, 2)], {"activation": "Tanh"}),
]

SEEDS: list[Seed] = [
    *(
        seed("Conv", inputs, attributes, opset=opset, name=f"conv_{number}")
        for number, (inputs, attributes, opset) in enumerate(_CONV)
    ),
    *(
        seed("ConvTranspose", inputs, attributes, opset=opset, oracle="runtime", name=f"conv_transpose_{number}")
        for number, (inputs, attributes, opset) in enumerate(_TRANSPOSED)
    ),
    *(seed("Col2Im", inputs, attributes, name=f"col2im_{number}") for number, (inputs, attributes) in enumerate(_COL2IM)),
    *(
        seed("FusedConv", inputs, attributes, domain="com.microsoft", name=f"fused_conv_{number}")
        for number, (inputs, attributes) in enumerate(_FUSED)
    ),
    seed(
        "ConvTransposeWithDynamicPads",
        [_normal(1, 2, 3, 3), _normal(2, 3, 3, 3), np.array([1, 0, 0, 1]), _normal(3)],
        {"strides": [2, 2]},
        domain="com.microsoft",
        name="conv_transpose_with_dynamic_pads",
    ),
]
