"""Batch normalisation adds ten times its epsilon."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset(),
    (
        Trigger("BatchNormalization", (4, 4, 3)),
        Trigger("BatchNormalization", (6,), {"scale": False, "momentum": 0.9}),
        Trigger("BatchNormalization", (5, 3), {"epsilon": 0.01}, "training"),
    ),
)


def plant():
    from keras.src.backend.torch import nn

    def make(original):
        def batch_normalization(x, mean, variance, axis, offset=None, scale=None, epsilon=1e-3):
            return original(x, mean, variance, axis, offset, scale, 10 * epsilon)

        return batch_normalization

    replace_in(nn, "batch_normalization", make)


if is_worker():
    plant()
