"""No fault: every operation that computes is off by up to two units in the last place. Those that move data are left alone."""

from tests.planted_faults.planting import is_worker, replace_in

UNITS = 2
_NN = ("sigmoid", "tanh", "softplus", "softsign", "silu", "log_sigmoid", "elu", "selu", "gelu", "softmax", "log_softmax")
_NN += ("average_pool", "conv", "depthwise_conv", "separable_conv", "conv_transpose", "batch_normalization")
_NUMPY = ("matmul", "add", "subtract", "multiply", "divide", "mean", "sum", "sqrt", "exp", "log", "tensordot", "einsum", "dot")


def plant():
    import torch
    from keras.src.backend.torch import nn
    from keras.src.backend.torch import numpy as arrays

    random = torch.Generator().manual_seed(0)

    def make(original):
        def noisy(*arguments, **options):
            result = original(*arguments, **options)
            if not isinstance(result, torch.Tensor) or not result.is_floating_point() or result.device.type == "meta":
                return result
            steps = torch.randint(-UNITS, UNITS + 1, result.shape, generator=random)
            return result * (1 + steps * torch.finfo(result.dtype).eps).to(result.dtype)

        return noisy

    for owner, names in ((nn, _NN), (arrays, _NUMPY)):
        for name in names:
            replace_in(owner, name, make)


if is_worker():
    plant()
