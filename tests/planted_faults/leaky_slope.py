"""The slope of a leaky ReLU is 1 % too steep."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset(),
    (
        Trigger("LeakyReLU", (6, 3)),
        Trigger("LeakyReLU", (4, 4, 2), {"negative_slope": 0.1}),
    ),
)


def plant():
    from keras.src.backend.torch import nn

    replace_in(nn, "leaky_relu", lambda original: lambda x, negative_slope=0.2: original(x, 1.01 * negative_slope))


if is_worker():
    plant()
