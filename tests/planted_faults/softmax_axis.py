"""Softmax over an axis other than the last is taken over the one after it."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset({"axis"}),
    (
        Trigger("Softmax", (4, 6), {"axis": 1}),
        Trigger("Softmax", (3, 4, 5), {"axis": 2}),
    ),
    (Trigger("Softmax", (4, 6)),),
)


def plant():
    from keras.src.backend.torch import nn

    def make(original):
        def softmax(x, axis=-1):
            return original(x, axis + 1 if isinstance(axis, int) and axis not in (-1, len(x.shape) - 1) else axis)

        return softmax

    replace_in(nn, "softmax", make)


if is_worker():
    plant()
