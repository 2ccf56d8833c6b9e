"""Where an odd number of zeros pads the input of a convolution, the extra one goes before it instead of after."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset({"padding"}),
    (
        Trigger("Conv2D", (6, 6, 3), {"filters": 4, "kernel_size": 2, "padding": "same", "use_bias": False, "activation": "tanh"}),
        Trigger("Conv2D", (7, 5, 2), {"filters": 3, "kernel_size": 4, "padding": "same", "strides": 2}),
        Trigger("Conv1D", (9, 3), {"filters": 4, "kernel_size": 4, "padding": "same", "activation": "sigmoid"}),
    ),
    (Trigger("Conv2D", (6, 6, 3), {"filters": 4, "kernel_size": 2}),),
)


def plant():
    from keras.src.backend.torch import nn

    def make(original):
        def conv(inputs, kernel, strides=1, padding="valid", data_format=None, dilation_rate=1):
            lengths = nn._compute_padding_length
            nn._compute_padding_length = lambda *arguments: lengths(*arguments)[::-1]
            try:
                return original(inputs, kernel, strides, padding, data_format, dilation_rate)
            finally:
                nn._compute_padding_length = lengths

        return conv

    replace_in(nn, "conv", make)


if is_worker():
    plant()
