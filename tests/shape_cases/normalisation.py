"""Normalisation layers."""

from __future__ import annotations

from tests.shape_cases import Draw, cases
from tests.shape_cases.convolution import dimensions


def _features(draw: Draw, features: int) -> int:
    return draw.integer(1, 5) if draw.chance(0.2) else features


def _sizes(draw: Draw, front: list[int], axes: int) -> list[int]:
    """Sizes above 1: statistics of single values are refused only while a model is trained."""
    shape = [*front, *(draw.integer(2, 4) for _ in range(axes))]
    if draw.chance(0.15):
        shape.insert(0, 2)
    elif draw.chance(0.1):
        shape.pop(0)
    return shape


@cases(*(f"torch.nn.{lazy}BatchNorm{axes}d" for lazy in ("", "Lazy") for axes in (1, 2, 3)))
def _(draw: Draw) -> str:
    axes = dimensions(draw)
    features = draw.integer(2, 5)
    shape = _sizes(draw, [draw.integer(2, 4), features], draw.integer(0, 1) if axes == 1 else axes)
    first = "" if "Lazy" in draw.name else f"{_features(draw, features)}, "
    flags = f"affine={draw.chance(0.6)}, track_running_stats={draw.chance(0.6)}"
    return f"nn.{draw.short}({first}{flags})({draw.array(shape)})"


@cases("torch.nn.SyncBatchNorm")
def _(draw: Draw) -> str:
    features = draw.integer(2, 5)
    shape = _sizes(draw, [draw.integer(2, 4), features], draw.integer(0, 2))
    return f"nn.SyncBatchNorm({_features(draw, features)}).eval()({draw.array(shape)})"


@cases("torch.nn.functional.batch_norm")
def _(draw: Draw) -> str:
    features = draw.integer(1, 5)
    shape = draw.varied((draw.integer(1, 3), features, *draw.shape(0, 2, 3)), 0.2)
    vectors = [draw.array((_features(draw, features),)) if draw.chance(0.5) else "None" for _ in range(2)]
    statistics = draw.array((features,))
    if draw.chance(0.5):
        return f"F.batch_norm({draw.array(shape)}, {statistics}, {statistics}, {', '.join(vectors)})"
    return f"F.batch_norm({draw.array(shape)}, None, None, {', '.join(vectors)}, training=True)"


@cases(*(f"torch.nn.{lazy}InstanceNorm{axes}d" for lazy in ("", "Lazy") for axes in (1, 2, 3)))
def _(draw: Draw) -> str:
    axes = dimensions(draw)
    features = draw.integer(1, 5)
    # A lazy layer takes its first input with a batch only.
    front = [draw.integer(1, 3)] if "Lazy" in draw.name or draw.chance(0.8) else []
    shape = [*front, features, *(draw.integer(1, 3) for _ in range(axes))]
    if draw.chance(0.15):
        shape.insert(0, 2)
    first = "" if "Lazy" in draw.name else f"{_features(draw, features)}, "
    return f"nn.{draw.short}({first}affine={draw.chance(0.5)})({draw.array(shape)})"


@cases("torch.nn.functional.instance_norm")
def _(draw: Draw) -> str:
    features = draw.integer(1, 5)
    shape = draw.varied((draw.integer(1, 3), features, *draw.shape(1, 2, 3)), 0.2)
    vectors = [draw.array((_features(draw, features),)) if draw.chance(0.5) else "None" for _ in range(2)]
    return f"F.instance_norm({draw.array(shape)}, None, None, {', '.join(vectors)})"


@cases("torch.nn.GroupNorm")
def _(draw: Draw) -> str:
    groups = draw.integer(1, 3)
    channels = groups * draw.integer(1, 2) if draw.chance(0.85) else draw.integer(1, 6)
    shape = draw.varied((draw.integer(1, 3), channels, *draw.shape(0, 2)), 0.2)
    return f"nn.GroupNorm({groups}, {channels}, affine={draw.chance(0.6)})({draw.array(shape)})"


@cases("torch.nn.functional.group_norm", "torch.group_norm")
def _(draw: Draw) -> str:
    groups = draw.integer(1, 3)
    channels = groups * draw.integer(1, 2)
    # With the function of `torch` itself, statistics of one value are taken.
    low = 2 if draw.name == "torch.group_norm" else 1
    shape = draw.varied((draw.integer(low, 3), channels, *draw.shape(0, 2)), 0.2)
    vectors = [draw.array((_features(draw, channels),)) if draw.chance(0.5) else "None" for _ in range(2)]
    return f"{draw.name}({draw.array(shape)}, {groups}, {', '.join(vectors)})"


@cases("torch.nn.LayerNorm", "torch.nn.RMSNorm")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 4)
    last = draw.varied(shape[-draw.integer(1, len(shape)) :], 0.25) or (2,)
    over = last[0] if len(last) == 1 and draw.chance(0.6) else list(last)
    return f"nn.{draw.short}({over}, elementwise_affine={draw.chance(0.5)})({draw.array(shape)})"


@cases("torch.nn.functional.layer_norm", "torch.nn.functional.rms_norm", "torch.layer_norm", "torch.rms_norm")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 4)
    last = draw.varied(shape[-draw.integer(1, len(shape)) :], 0.25) or (2,)
    weight = draw.array(draw.varied(last, 0.15)) if draw.chance(0.5) else "None"
    return f"{draw.name}({draw.array(shape)}, {list(last)}, {weight})"


@cases("torch.nn.LocalResponseNorm", "torch.nn.functional.local_response_norm")
def _(draw: Draw) -> str:
    input = draw.array(draw.shape(1, 5, 3))
    return f"nn.LocalResponseNorm(2)({input})" if draw.short == "LocalResponseNorm" else f"F.local_response_norm({input}, 2)"
