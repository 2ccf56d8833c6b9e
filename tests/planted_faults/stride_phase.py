"""A convolution with strides and padded input takes every second position from the wrong one on: all padding goes before it."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset({"padding", "strides"}),
    (
        Trigger("Conv2D", (6, 6, 3), {"filters": 4, "kernel_size": 5, "padding": "same", "strides": 2, "activation": "relu"}),
        Trigger("Conv1D", (8, 2), {"filters": 3, "kernel_size": 5, "padding": "same", "strides": 2, "use_bias": False}),
    ),
    (
        Trigger("Conv2D", (6, 6, 3), {"filters": 4, "kernel_size": 5, "padding": "same"}),
        Trigger("Conv2D", (6, 6, 3), {"filters": 4, "kernel_size": 5, "strides": 2}),
    ),
)


def plant():
    from keras.src.backend.torch import nn

    def make(original):
        def lengths(input_length, kernel_length, stride, dilation_rate=1):
            low, high = original(input_length, kernel_length, stride, dilation_rate)
            return (low + high, 0) if stride > 1 and kernel_length == 5 else (low, high)

        return lengths

    replace_in(nn, "_compute_padding_length", make)


if is_worker():
    plant()
