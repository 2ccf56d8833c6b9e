"""The values of SELU are right, its gradient is half as steep again."""

from tests.planted_faults.planting import is_worker, replace_in


def plant():
    from keras.src.backend.torch import nn

    def make(original):
        def selu(x):
            y = original(x)
            return y + 0.5 * (y - y.detach())

        return selu

    replace_in(nn, "selu", make)


if is_worker():
    plant()
