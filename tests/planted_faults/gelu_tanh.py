"""The exact GELU is computed by the approximation with tanh."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset({"activation"}),
    (
        Trigger("Dense", (6,), {"units": 5, "activation": "gelu"}),
        Trigger("Conv2D", (4, 4, 2), {"filters": 3, "kernel_size": 3, "activation": "gelu", "padding": "same"}),
        Trigger("Dense", (4, 6), {"units": 5, "activation": "gelu", "use_bias": False}),
    ),
    (Trigger("Dense", (6,), {"units": 5, "activation": "silu"}),),
)


def plant():
    from keras.src.backend.torch import nn

    replace_in(nn, "gelu", lambda original: lambda x, approximate=True: original(x, True))


if is_worker():
    plant()
