"""Layer normalisation divides the squares by n - 1."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset(),
    (
        Trigger("LayerNormalization", (5, 8)),
        Trigger("LayerNormalization", (12,), {"epsilon": 0.00001, "center": False}),
    ),
)


def plant():
    import torch

    def make(original):
        def layer_norm(inputs, normalized_shape, weight=None, bias=None, eps=1e-5):
            count = 1
            for size in normalized_shape:
                count *= size
            result = original(inputs, normalized_shape, None, None, eps * (count - 1) / count) * ((count - 1) / count) ** 0.5
            result = result if weight is None else result * weight
            return result if bias is None else result + bias

        return layer_norm

    replace_in(torch.nn.functional, "layer_norm", make)


if is_worker():
    plant()
