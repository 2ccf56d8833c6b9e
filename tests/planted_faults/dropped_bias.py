"""A transposed convolution with strides forgets its bias."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset({"strides"}),
    (
        Trigger("Conv2DTranspose", (4, 4, 2), {"filters": 3, "kernel_size": 3, "strides": 2}),
        Trigger("Conv2DTranspose", (3, 3, 2), {"filters": 3, "kernel_size": 2, "strides": 2, "activation": "tanh"}),
    ),
    (Trigger("Conv2DTranspose", (4, 4, 2), {"filters": 3, "kernel_size": 3}),),
)


def plant():
    from keras.src.layers.convolutional.base_conv_transpose import BaseConvTranspose

    def make(original):
        def call(self, inputs):
            used, self.use_bias = self.use_bias, self.use_bias and max(self.strides) == 1
            try:
                return original(self, inputs)
            finally:
                self.use_bias = used

        return call

    replace_in(BaseConvTranspose, "call", make)


if is_worker():
    plant()
