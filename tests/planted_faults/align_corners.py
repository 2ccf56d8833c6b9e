"""Bilinear interpolation maps corners to corners instead of edges to edges."""

from tests.planted_faults.planting import Fault, Trigger, is_worker, replace_in

FAULT = Fault(
    frozenset({"interpolation"}),
    (
        Trigger("UpSampling2D", (4, 4, 2), {"interpolation": "bilinear"}),
        Trigger("UpSampling2D", (3, 4, 2), {"interpolation": "bilinear", "size": 3}),
    ),
    (Trigger("UpSampling2D", (4, 4, 2)),),
)


def plant():
    import torch
    from keras.src.backend.torch import image

    def make(original):
        def resize(images, size, interpolation="bilinear", **options):
            if interpolation != "bilinear" or options.get("data_format") != "channels_last" or len(images.shape) != 4:
                return original(images, size, interpolation, **options)
            moved = images.permute((0, 3, 1, 2))
            return torch.nn.functional.interpolate(moved, tuple(size), mode="bilinear", align_corners=True).permute((0, 2, 3, 1))

        return resize

    replace_in(image, "resize", make)


if is_worker():
    plant()
