"""Functions of `tf.image`."""

from __future__ import annotations

from tests.shape_cases import Draw, cases


def _image(draw: Draw, channels: int | None = None) -> tuple[int, ...]:
    depth = draw.integer(1, 4) if channels is None else channels
    shape = (draw.integer(1, 5), draw.integer(1, 5), depth)
    shape = (draw.integer(1, 3), *shape) if draw.chance(0.5) else shape
    return shape if draw.chance(0.8) else draw.shape(0, 5)


@cases(
    *(
        f"tf.image.{name}"
        for name in (
            "flip_left_right",
            "flip_up_down",
            "random_flip_left_right",
            "random_flip_up_down",
            "transpose",
            "per_image_standardization",
        )
    )
)
def _(draw: Draw) -> str:
    return f"{draw.name}({draw.array(_image(draw))})"


@cases("tf.image.rot90")
def _(draw: Draw) -> str:
    return f"{draw.name}({draw.array(_image(draw))}, k={draw.integer(0, 3)})"


@cases("tf.image.adjust_brightness", "tf.image.adjust_contrast", "tf.image.random_brightness")
def _(draw: Draw) -> str:
    return f"{draw.name}({draw.array(_image(draw))}, 0.1)"


@cases("tf.image.random_contrast")
def _(draw: Draw) -> str:
    return f"{draw.name}({draw.array(_image(draw))}, 0.1, 0.2)"


@cases("tf.image.convert_image_dtype")
def _(draw: Draw) -> str:
    return f"{draw.name}({draw.array(_image(draw))}, tf.float32)"


@cases(*(f"tf.image.{name}" for name in ("adjust_hue", "adjust_saturation", "random_hue")))
def _(draw: Draw) -> str:
    return f"{draw.name}({draw.array(_image(draw, draw.pick([3, 3, 1])))}, 0.1)"


@cases("tf.image.random_saturation")
def _(draw: Draw) -> str:
    return f"{draw.name}({draw.array(_image(draw, draw.pick([3, 3, 1])))}, 0.1, 0.2)"


@cases("tf.image.rgb_to_hsv", "tf.image.hsv_to_rgb", "tf.image.rgb_to_grayscale", "tf.image.grayscale_to_rgb")
def _(draw: Draw) -> str:
    return f"{draw.name}({draw.array(_image(draw, draw.pick([3, 1])))})"


@cases("tf.image.resize")
def _(draw: Draw) -> str:
    size = [draw.integer(1, 6) for _ in range(2 if draw.chance(0.9) else 3)]
    return f"{draw.name}({draw.array(_image(draw))}, {size})"


@cases(*(f"tf.image.resize_{name}" for name in ("bilinear", "nearest_neighbor", "bicubic", "area")), "tf.image.resize_images")
def _(draw: Draw) -> str:
    size = [draw.integer(1, 6) for _ in range(2 if draw.chance(0.9) else 3)]
    return f"tf.compat.v1.image.{draw.short}({draw.array(_image(draw))}, {size})"


@cases("tf.image.resize_with_pad")
def _(draw: Draw) -> str:
    # A smaller size may leave nothing of a narrow image, which the library refuses.
    return f"{draw.name}({draw.array(_image(draw))}, 6, 6)"


@cases("tf.image.resize_with_crop_or_pad")
def _(draw: Draw) -> str:
    return f"{draw.name}({draw.array(_image(draw))}, {draw.integer(1, 6)}, {draw.integer(1, 6)})"


@cases("tf.image.resize_image_with_crop_or_pad")
def _(draw: Draw) -> str:
    return f"tf.compat.v1.image.{draw.short}({draw.array(_image(draw))}, {draw.integer(1, 6)}, {draw.integer(1, 6)})"


@cases("tf.image.crop_to_bounding_box", "tf.image.pad_to_bounding_box")
def _(draw: Draw) -> str:
    numbers = [draw.integer(0, 2), draw.integer(0, 2), draw.integer(1, 6), draw.integer(1, 6)]
    return f"{draw.name}({draw.array(_image(draw))}, {', '.join(map(str, numbers))})"


@cases("tf.image.central_crop")
def _(draw: Draw) -> str:
    return f"{draw.name}({draw.array(_image(draw))}, {draw.pick([0.3, 0.5, 1.0, 0.9])})"


@cases("tf.image.random_crop")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    size = draw.varied(tuple(draw.integer(1, part) for part in shape), 0.4)
    return f"{draw.name}({draw.array(shape)}, {list(size)})"


@cases("tf.random_crop")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    size = draw.varied(tuple(draw.integer(1, part) for part in shape), 0.4)
    return f"tf.compat.v1.random_crop({draw.array(shape)}, {list(size)})"


@cases("tf.image.stateless_random_crop")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    size = draw.varied(tuple(draw.integer(1, part) for part in shape), 0.4)
    return f"{draw.name}({draw.array(shape)}, {list(size)}, (1, 2))"


@cases("tf.image.crop_and_resize")
def _(draw: Draw) -> str:
    boxes = draw.integer(1, 3)
    image = draw.array((1, 4, 4, 2) if draw.chance(0.8) else draw.shape(2, 5))
    return f"{draw.name}({image}, tf.zeros(({boxes}, 4)), tf.zeros(({boxes},), tf.int32), [{draw.integer(1, 4)}, 2])"
