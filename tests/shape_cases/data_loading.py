"""Sets of samples and loaders."""

from __future__ import annotations

from tests.shape_cases import Draw, cases

_SETUP = "import torch.utils.data\nfrom torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset\n"


def _tensors(draw: Draw, rows: int) -> str:
    shapes = [(rows, *draw.shape(0, 3, 4)) for _ in range(draw.integer(1, 3))]
    if draw.chance(0.3):
        shapes.append((rows + 1, 2))
    return ", ".join(draw.array(shape) for shape in shapes)


@cases("torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset", setup=_SETUP)
def _(draw: Draw) -> str:
    return f"{draw.name}({_tensors(draw, draw.integer(1, 4))})[0]"


@cases("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader", setup=_SETUP)
def _(draw: Draw) -> str:
    size = draw.integer(1, 4)
    rows = size * draw.integer(1, 3)
    options = draw.pick(["", ", shuffle=True", ", drop_last=True"])
    if "drop_last" in options:
        rows += draw.integer(0, 3)
    data = draw.pick([f"TensorDataset({_tensors(draw, rows)})", f"[(torch.zeros(3), 1.0)] * {rows}", draw.array((rows, 2))])
    if draw.chance(0.2):
        return f"torch.zeros(len({draw.name}({data}, batch_size={size}{options})))"
    return f"next(iter({draw.name}({data}, batch_size={size}{options})))"


@cases("torch.utils.data.Subset", "torch.utils.data.dataset.Subset", setup=_SETUP)
def _(draw: Draw) -> str:
    rows = draw.integer(2, 4)
    part = f"{draw.name}(TensorDataset({_tensors(draw, rows)}), [0, 1])"
    return draw.pick([f"{part}[0]", f"torch.zeros(len({part}))"])


@cases("torch.utils.data.ConcatDataset", setup=_SETUP)
def _(draw: Draw) -> str:
    rows = draw.integer(2, 4)
    tensors = _tensors(draw, rows)
    whole = f"ConcatDataset([TensorDataset({tensors}), TensorDataset({tensors})])"
    return draw.pick([f"{whole}[0]", f"torch.zeros(len({whole}))"])


@cases("torch.utils.data.random_split", setup=_SETUP)
def _(draw: Draw) -> str:
    rows = draw.integer(3, 9)
    first = draw.integer(1, rows - 1)
    lengths = draw.pick([f"[{first}, {rows - first}]", "[0.5, 0.5]", "[0.8, 0.2]"])
    return f"tuple(torch.zeros(len(part)) for part in torch.utils.data.random_split(TensorDataset({draw.array((rows, 2))}), {lengths}))"


@cases("torch.utils.data.default_collate", "torch.utils.data.dataloader.default_collate", setup=_SETUP)
def _(draw: Draw) -> str:
    sample = f"({draw.array(draw.shape(0, 3))}, {draw.pick(['1', '2.0', 'True'])})"
    return f"{draw.name}([{sample}, {sample}, {sample}])"


@cases("tf.data.Dataset.from_tensor_slices", "tf.data.Dataset.from_tensors", "tf.data.Dataset.zip", "tf.data.Dataset.range")
def _(draw: Draw) -> str:
    size = draw.integer(1, 4)
    rows = size * draw.integer(1, 3)
    arrays = draw.array((rows, *draw.shape(0, 2))), draw.array((rows + draw.pick([0, 0, 1]), 2))
    if draw.short == "range":
        return f"next(iter(tf.data.Dataset.range({rows}).batch({size})))"
    if draw.short == "from_tensors":
        return f"next(iter(tf.data.Dataset.from_tensors(({arrays[0]}, {arrays[1]}))))"
    if draw.short == "zip":
        parts = ", ".join(f"tf.data.Dataset.from_tensor_slices({array})" for array in arrays)
        return f"next(iter(tf.data.Dataset.zip(({parts})).repeat().batch({size})))"
    steps = draw.pick(
        [f".batch({size})", f".shuffle(3).repeat().batch({size}).prefetch(1)", f".map(lambda a, b: (b, a)).batch({size})", ""]
    )
    return f"next(iter(tf.data.Dataset.from_tensor_slices(({arrays[0]}, {arrays[1]})){steps}))"
