"""A convolution with groups forgets the last input channel of each group."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset({"groups"}),
    (
        Trigger("Conv2D", (5, 5, 4), {"filters": 4, "kernel_size": 3, "groups": 2, "padding": "same", "activation": "tanh"}),
        Trigger("Conv2D", (5, 5, 6), {"filters": 6, "kernel_size": 1, "groups": 3, "use_bias": False}),
        Trigger("Conv1D", (7, 4), {"filters": 4, "kernel_size": 3, "groups": 2, "strides": 2}),
    ),
    (Trigger("Conv2D", (5, 5, 4), {"filters": 4, "kernel_size": 3, "padding": "same"}),),
)


def plant():
    from keras.src.backend.torch import nn

    def make(original):
        def conv(inputs, kernel, *arguments, **options):
            if inputs.shape[-1] > kernel.shape[-2] > 1:
                kernel = nn.convert_to_tensor(kernel).clone()
                kernel[..., -1, :] = 0
            return original(inputs, kernel, *arguments, **options)

        return conv

    replace_in(nn, "conv", make)


if is_worker():
    plant()
