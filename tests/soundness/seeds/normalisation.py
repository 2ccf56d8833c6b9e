"""Softmax and the normalisations: old versions, axes, epsilons, and data far from zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.soundness.seeds.seed import Seed, seed

_rng = np.random.default_rng(41)


def _normal(*shape: int, mean: float = 0.0, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return (_rng.standard_normal(shape) + mean).astype(dtype)


def _positive(*shape: int) -> np.ndarray[Any, Any]:
    return (np.abs(_rng.standard_normal(shape)) + 2.5).astype(np.float32)


def _softmax() -> list[Seed]:
    found: list[Seed] = []
    for name in ("Softmax", "LogSoftmax"):
        for opset, axis in ((7, None), (7, 2), (11, 0), (11, -1), (12, 1), (13, None), (13, 0), (13, -2), (22, 1)):
            attributes = {} if axis is None else {"axis": axis}
            label = f"{name}-{opset}-axis-{axis}"
            found.append(seed(name, [_normal(2, 3, 4)], attributes, opset=opset, oracle="runtime", name=label))
        found.append(seed(name, [_normal(3)], {"axis": 0}, opset=13, oracle="runtime", name=f"{name}-vector"))
        wide = np.array([[-120.0, 0.0, 3.0], [50.0, -50.0, 0.0]], np.float32)
        found.append(seed(name, [wide], opset=13, oracle="runtime", name=f"{name}-wide"))
    masked = np.array([[0.5, -np.inf, 2.0], [-np.inf, -np.inf, 1.0]], np.float32)
    for name in ("Softmax", "LogSoftmax"):
        found.append(seed(name, [masked], opset=13, oracle="runtime", vary=[], name=f"{name}-masked"))
    return found


def _layer() -> list[Seed]:
    found: list[Seed] = []
    for axis, shape in ((-1, (2, 3, 4)), (1, (2, 3, 4)), (0, (3, 4)), (-2, (2, 3, 5))):
        tail = shape[axis:]
        inputs = [_normal(*shape), _normal(*tail), _normal(*tail)]
        found.append(seed("LayerNormalization", inputs, {"axis": axis}, opset=17, name=f"layer-axis-{axis}"))
        found.append(seed("LayerNormalization", inputs[:2], {"axis": axis, "epsilon": 0.1}, opset=17, name=f"layer-{axis}"))
        inputs = [_normal(*shape), _normal(*tail)]
        found.append(seed("RMSNormalization", inputs, {"axis": axis}, opset=23, name=f"rms-axis-{axis}"))
    for mean in (1e2, 1e4, 1e6):
        inputs = [_normal(2, 8, mean=mean), _normal(8), _normal(8)]
        for oracle in ("reference", "runtime"):
            name = f"layer-mean-{mean:g}-{oracle}"
            found.append(seed("LayerNormalization", inputs, opset=17, outputs=3, vary=[0], oracle=oracle, name=name))
    for mean in (1e2, 6e4):
        inputs = [_normal(2, 3, 8, mean=mean), _normal(3), _normal(3)]
        for oracle in ("reference", "runtime"):
            name = f"instance-mean-{mean:g}-{oracle}"
            found.append(seed("InstanceNormalization", inputs, opset=22, vary=[0], oracle=oracle, name=name))
    inputs = [_normal(2, 4, 3, mean=50.0), _normal(4), _normal(4)]
    found.append(seed("GroupNormalization", inputs, {"num_groups": 2}, opset=21, vary=[0], oracle="runtime", name="group-mean-50"))
    half = [_normal(2, 6, dtype=np.float16), _normal(6, dtype=np.float16), _normal(6, dtype=np.float16)]
    found.append(seed("LayerNormalization", half, opset=17, oracle="runtime", name="layer-float16"))
    large = [(half[0] * 1000).astype(np.float16), *half[1:]]
    found.append(seed("LayerNormalization", large, opset=17, oracle="runtime", name="layer-float16-large"))
    found.append(seed("RMSNormalization", half[:2], opset=23, oracle="runtime", name="rms-float16"))
    for epsilon in (0.0, 1e-12):
        found.append(
            seed("LayerNormalization", [_normal(2, 5), _normal(5)], {"epsilon": epsilon}, opset=17, name=f"layer-{epsilon}")
        )
        found.append(seed("RMSNormalization", [_normal(2, 5), _normal(5)], {"epsilon": epsilon}, opset=23, name=f"rms-{epsilon}"))
    found.append(seed("LayerNormalization", [_normal(3, 1), _normal(1), _normal(1)], opset=17, name="layer-one-element"))
    return found


def _channels() -> list[Seed]:
    found: list[Seed] = []
    for opset, shape in ((7, (2, 3, 4)), (21, (1, 2, 3, 2)), (22, (2, 2, 2, 2, 2))):
        inputs = [_normal(*shape), _normal(shape[1]), _normal(shape[1])]
        for epsilon in (1e-5, 1e-2):
            name = f"instance-{opset}-{epsilon:g}"
            found.append(seed("InstanceNormalization", inputs, {"epsilon": epsilon}, opset=opset, oracle="runtime", name=name))
    for groups in (1, 2, 4):
        x = _normal(2, 4, 3)
        attributes = {"num_groups": groups, "epsilon": 1e-3}
        old = [x, _normal(groups), _normal(groups)]
        found.append(seed("GroupNormalization", old, attributes, opset=18, oracle="runtime", name=f"group-18-{groups}"))
        new = [x, _normal(4), _normal(4)]
        found.append(seed("GroupNormalization", new, attributes, opset=21, oracle="runtime", name=f"group-21-{groups}"))
    for opset in (7, 9, 14, 15):
        for shape in ((2, 3, 4), (3, 2), (1, 2, 2, 3)):
            channels = shape[1]
            inputs = [_normal(*shape), _normal(channels), _normal(channels), _normal(channels), _positive(channels)]
            name = f"batch-{opset}-{len(shape)}"
            found.append(seed("BatchNormalization", inputs, {"epsilon": 1e-3}, opset=opset, oracle="runtime", name=name))
            constants = {1: True, 2: True, 3: True, 4: True}
            name = f"batch-{opset}-{len(shape)}-constant"
            found.append(seed("BatchNormalization", inputs, opset=opset, oracle="runtime", constants=constants, name=name))
    inputs = [_normal(2, 2, 3), *(_normal(2, 3) for _ in range(3)), _positive(2, 3)]
    found.append(seed("BatchNormalization", inputs, {"spatial": 0}, opset=7, oracle="runtime", name="batch-7-not-spatial"))
    for opset in (14, 15):
        inputs = [_normal(2, 2, 3), _normal(2), _normal(2), _normal(2), _positive(2)]
        attributes = {"training_mode": 1, "momentum": 0.7}
        found.append(seed("BatchNormalization", inputs, attributes, opset=opset, outputs=3, name="batch-training"))
    far = [_normal(2, 2, 3, mean=6e4), _normal(2), _normal(2), np.full(2, 6e4, np.float32), _positive(2)]
    found.append(seed("BatchNormalization", far, opset=15, oracle="runtime", vary=[0], name="batch-mean-6e4"))
    return found


def _local() -> list[Seed]:
    found: list[Seed] = []
    for size in (1, 2, 3, 5):
        attributes = {"size": size, "alpha": 0.5, "beta": 0.75, "bias": 1.5}
        found.append(seed("LRN", [_normal(2, 4, 3)[..., None]], attributes, opset=13, oracle="runtime", name=f"lrn-{size}"))
    found.append(
        seed("LRN", [_normal(2, 3, 2, 2)], {"size": 3, "alpha": 2.0, "beta": 0.4}, opset=7, oracle="runtime", name="lrn-7")
    )
    found.append(
        seed(
            "LRN",
            [10 * _normal(2, 3, 2, 2)],
            {"size": 3, "alpha": 2.0, "beta": 1.5},
            opset=13,
            oracle="runtime",
            name="lrn-turns",
        )
    )
    for opset in (7, 22):
        for p in (1, 2):
            for axis in (0, 1, -1):
                attributes = {"p": p, "axis": axis}
                name = f"lp-{opset}-{p}-{axis}"
                found.append(seed("LpNormalization", [_normal(3, 2, 4)], attributes, opset=opset, oracle="runtime", name=name))
    for opset, axes in ((9, None), (13, [0, 2, 3]), (13, [2, 3]), (13, [1, 2, 3]), (13, [-1])):
        attributes = {} if axes is None else {"axes": axes}
        found.append(seed("MeanVarianceNormalization", [_normal(2, 3, 4, 2)], attributes, opset=opset, name=f"mvn-{opset}-{axes}"))
    found.append(seed("MeanVarianceNormalization", [_normal(2, 3, 4, 2, mean=50.0)], opset=13, name="mvn-mean-50"))
    return found


SEEDS = [*_softmax(), *_layer(), *_channels(), *_local()]
