"""An ELU ignores its alpha."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset({"alpha"}),
    (
        Trigger("ELU", (6, 3), {"alpha": 0.5}),
        Trigger("ELU", (4, 4, 2), {"alpha": 1.5}),
    ),
    (Trigger("ELU", (6, 3)),),
)


def plant():
    from keras.src.backend.torch import nn

    replace_in(nn, "elu", lambda original: lambda x, alpha=1.0: original(x, 1.0))


if is_worker():
    plant()
