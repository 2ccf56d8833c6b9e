"""A convolution that is to be dilated has its taps side by side."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset({"dilation_rate"}),
    (
        Trigger("Conv2D", (7, 7, 2), {"filters": 3, "kernel_size": 3, "dilation_rate": 2, "activation": "relu"}),
        Trigger("Conv1D", (9, 3), {"filters": 4, "kernel_size": 3, "dilation_rate": 2, "padding": "same", "use_bias": False}),
    ),
    (Trigger("Conv2D", (7, 7, 2), {"filters": 3, "kernel_size": 3}),),
)


def plant():
    import torch
    from keras.src.backend.torch import nn

    def make(original):
        def conv(inputs, kernel, strides=1, padding="valid", data_format=None, dilation_rate=1):
            ndim = len(inputs.shape) - 2
            rates = (dilation_rate,) * ndim if isinstance(dilation_rate, int) else tuple(dilation_rate)
            if max(rates) > 1:
                kernel = nn.convert_to_tensor(kernel)
                # The kernel keeps the extent of the dilated one, so that sizes are right.
                extents = [(size - 1) * rate + 1 for size, rate in zip(kernel.shape, rates)]
                wide = torch.zeros((*extents, *kernel.shape[ndim:]), dtype=kernel.dtype, device=kernel.device)
                wide[tuple(slice(0, size) for size in kernel.shape[:ndim])] = kernel
                kernel, dilation_rate = wide, 1
            return original(inputs, kernel, strides, padding, data_format, dilation_rate)

        return conv

    replace_in(nn, "conv", make)


if is_worker():
    plant()
