"""Average pooling rounds the number of windows up: the last one hangs over the edge."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset(),
    (
        Trigger("AveragePooling2D", (5, 7, 2), {"pool_size": 2}),
        Trigger("AveragePooling2D", (7, 7, 2), {"pool_size": 2, "strides": 3}),
        Trigger("AveragePooling1D", (7, 3), {"pool_size": 3, "strides": 3}),
    ),
    (Trigger("AveragePooling2D", (6, 6, 2), {"pool_size": 2}),),
)


def plant():
    from keras.src.backend.torch import nn

    def make(original):
        def average_pool(inputs, pool_size, strides=None, padding="valid", data_format=None):
            inputs = nn.convert_to_tensor(inputs)
            ndim = len(inputs.shape) - 2
            sizes = (pool_size,) * ndim if isinstance(pool_size, int) else tuple(pool_size)
            steps = sizes if strides is None else (strides,) * ndim if isinstance(strides, int) else tuple(strides)
            if padding == "valid" and inputs.device.type != "meta" and data_format != "channels_first":
                import torch

                widths = [-(size - window) % step for size, window, step in zip(inputs.shape[1:-1], sizes, steps)]
                flat = [0, 0, *(number for width in reversed(widths) for number in (0, width))]
                inputs = torch.nn.functional.pad(inputs, flat)
            return original(inputs, pool_size, strides, padding, data_format)

        return average_pool

    replace_in(nn, "average_pool", make)


if is_worker():
    plant()
