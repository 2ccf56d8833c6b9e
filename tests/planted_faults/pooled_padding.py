"""Average pooling counts padding as zeros."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset({"padding"}),
    (
        Trigger("AveragePooling2D", (7, 7, 2), {"pool_size": 3, "strides": 3, "padding": "same"}),
        Trigger("AveragePooling1D", (7, 3), {"pool_size": 2, "padding": "same"}),
        Trigger("AveragePooling2D", (5, 5, 2), {"pool_size": 2, "strides": 1, "padding": "same"}),
    ),
    (Trigger("AveragePooling2D", (6, 6, 2), {"pool_size": 2, "padding": "same"}),),
)


def plant():
    import torch
    from keras.src.backend.torch import nn

    def make(original):
        def average_pool(inputs, pool_size, strides=None, padding="valid", data_format=None):
            result = original(inputs, pool_size, strides, padding, data_format)
            if padding == "same" and data_format != "channels_first":
                inputs = nn.convert_to_tensor(inputs)
                ndim = len(inputs.shape) - 2
                sizes = (pool_size,) * ndim if isinstance(pool_size, int) else tuple(pool_size)
                steps = sizes if strides is None else (strides,) * ndim if isinstance(strides, int) else tuple(strides)
                for axis, (size, window, step) in enumerate(zip(inputs.shape[1:-1], sizes, steps), 1):
                    low, _ = nn._compute_padding_length(size, window, step)
                    starts = torch.arange(result.shape[axis], device=result.device) * step - low
                    inside = torch.clamp(starts + window, max=size) - torch.clamp(starts, min=0)
                    shape = [1] * len(result.shape)
                    shape[axis] = -1
                    result = result * (inside / window).reshape(shape).to(result.dtype)
            return result

        return average_pool

    replace_in(nn, "average_pool", make)


if is_worker():
    plant()
