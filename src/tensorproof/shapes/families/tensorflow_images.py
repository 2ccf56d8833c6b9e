"""Functions of `tf.image`: one image (height, width, channels) or a batch of them."""

from __future__ import annotations

from tensorproof.rules.shapes.window_too_large import WINDOW_TOO_LARGE
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.rule_table import Call, Extent, Mismatch, NotKnown, Sizes, as_sizes, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape, of_rank
from tensorproof.shapes.sizes import Size, bounds, less, same, unknown
from tensorproof.shapes.values import Tensor, Value, as_size


def need_image(call: Call, image: Tensor, result: Shape = ANY_SHAPE, *, ranks: tuple[int, ...] = (3, 4)) -> None:
    """Refuse what is neither an image nor a batch of them."""
    shape = image.shape
    if shape.rank not in (None, *ranks) or (shape.rank is None and shape.least_rank > max(ranks)):
        wanted = " or ".join(map(str, ranks))
        message = f"{call.name} takes an image of {wanted} axes, but {shape} has {shape.least_rank}"
        raise Mismatch(WRONG_RANK, message, result=image.with_shape(result), tensors=(image,))


def with_planes(image: Tensor, height: Size, width: Size, channels: Size | None = None) -> Tensor:
    """The image with other sizes; an axis of batches stays."""
    if image.shape.rank is None:
        return image.with_shape(Shape((), (height, width, image.shape[-1] if channels is None else channels)))
    front = image.shape.dims[:-3]
    return image.with_shape(Shape((*front, height, width, image.shape.dims[-1] if channels is None else channels)))


# -- the same size ----------------------------------------------------------------------------------------------------

_FLIPS = "flip_left_right flip_up_down random_flip_left_right random_flip_up_down rot90 transpose per_image_standardization"
_COLOURS = "adjust_brightness adjust_contrast random_brightness random_contrast convert_image_dtype"
_RGB = "adjust_hue adjust_saturation random_hue random_saturation rgb_to_hsv hsv_to_rgb"


@shape_rule(*spelled("tf.image", _FLIPS))
def flipped(call: Call, image: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """Mirrored, turned or standardised."""
    short = call.name.rpartition(".")[2]
    if short == "per_image_standardization":
        if image.shape.rank is not None and image.shape.rank < 3:
            need_image(call, image)
        return image.with_shape(image.shape)
    need_image(call, image)
    if short == "transpose":
        return with_planes(image, image.shape[-2], image.shape[-3])
    if short == "rot90":
        turns = options[0] if options else keywords.get("k", 1)
        height, width = image.shape[-3], image.shape[-2]
        if not isinstance(turns, int):
            return with_planes(image, unknown(), unknown())
        return with_planes(image, *((width, height) if turns % 2 else (height, width)))
    return image.with_shape(image.shape)


@shape_rule(*spelled("tf.image", _COLOURS))
def recoloured(call: Call, image: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """Other values in the same places."""
    if "contrast" in call.name and image.shape.rank is not None and image.shape.rank < 3:
        need_image(call, image)
    return image.with_shape(image.shape)


@shape_rule(*spelled("tf.image", _RGB))
def recoloured_by_hue(call: Call, image: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """Three channels in other colours."""
    if call.name.endswith(("saturation", "hue")) and image.shape.rank is not None and image.shape.rank < 3:
        need_image(call, image)
    if image.shape.rank == 0 or same(image.shape[-1], 3) is False:
        message = f"{call.name} takes three channels, but {image.shape} has {image.shape[-1] if image.shape.rank else 'none'}"
        raise Mismatch(WRONG_RANK, message, result=image.with_shape(image.shape), tensors=(image,))
    return image.with_shape(image.shape)


@shape_rule("tf.image.rgb_to_grayscale", "tf.image.grayscale_to_rgb")
def changed_channels(call: Call, images: Tensor, name: Value = None) -> Tensor:
    """Three channels to one, or one to three."""
    before, after = (3, 1) if call.name.endswith("grayscale") else (1, 3)
    if images.shape.rank == 0 or same(images.shape[-1], before) is False:
        message = f"{call.name} takes {before} channels, but {images.shape} has {images.shape[-1] if images.shape.rank else 'none'}"
        raise Mismatch(WRONG_RANK, message, tensors=(images,))
    return images.with_shape(images.shape.without_last(1).extended(after))


# -- another size -----------------------------------------------------------------------------------------------------

_RESIZES = "resize resize_images resize_bilinear resize_nearest_neighbor resize_bicubic resize_area"


@shape_rule(*spelled("tf.image", _RESIZES))
def resized(call: Call, images: Tensor, size: Sizes, *options: Value, **keywords: Value) -> Tensor:
    """Height and width as they are asked for."""
    ranks = (3, 4) if call.name.endswith(("resize", "resize_images")) else (4,)
    if len(size) != 2:
        raise Mismatch(WRONG_RANK, f"{call.name} takes a size of height and width, not {Shape(size)}", tensors=(images,))
    need_image(call, images, of_rank(4), ranks=ranks)
    if keywords.get("preserve_aspect_ratio") not in (None, False):
        return with_planes(images, unknown(), unknown())
    return with_planes(images, *size)


@shape_rule("tf.image.resize_with_pad", "tf.image.resize_with_crop_or_pad", "tf.image.resize_image_with_crop_or_pad")
def resized_exactly(
    call: Call, image: Tensor, target_height: Extent, target_width: Extent, *options: Value, **keywords: Value
) -> Tensor:
    """Cut or padded to a size."""
    need_image(call, image)
    return with_planes(image, target_height, target_width)


@shape_rule("tf.image.crop_to_bounding_box", "tf.image.pad_to_bounding_box")
def boxed(
    call: Call, image: Tensor, offset_height: Extent, offset_width: Extent, target_height: Extent, target_width: Extent
) -> Tensor:
    """A part of an image, or an image inside a larger one."""
    need_image(call, image)
    result = with_planes(image, target_height, target_width)
    crops = "crop" in call.name
    for axis, offset, target in ((-3, offset_height, target_height), (-2, offset_width, target_width)):
        size = image.shape[axis]
        inner, outer = (target, size) if crops else (size, target)
        if less(outer, offset + inner):
            message = f"{offset} and {inner} elements do not fit into {outer} at axis {axis} of {image.shape}"
            raise Mismatch(WINDOW_TOO_LARGE, message, result=result, tensors=(image,))
    return result


@shape_rule("tf.image.central_crop")
def central_crop(call: Call, image: Tensor, central_fraction: Value) -> Tensor:
    """The middle of an image."""
    fraction = central_fraction if isinstance(central_fraction, int | float) else None
    if fraction == 1.0:
        return image.with_shape(image.shape)
    need_image(call, image)
    height, width = image.shape[-3], image.shape[-2]
    if fraction is None or not isinstance(height, int) or not isinstance(width, int):
        return with_planes(image, unknown(), unknown())
    return with_planes(image, *(size - 2 * int((size - size * fraction) / 2.0) for size in (height, width)))


@shape_rule("tf.random_crop", "tf.image.random_crop", "tf.image.stateless_random_crop")
def random_crop(call: Call, value: Tensor, size: Sizes, *options: Value, **keywords: Value) -> Tensor:
    """A part of any tensor, at any place."""
    result = value.with_shape(Shape(size))
    if value.shape.rank is None:
        return result
    if value.shape.rank != len(size):
        message = f"a part of {len(size)} sizes is taken of {value.shape}, which has {value.shape.rank}"
        raise Mismatch(WRONG_RANK, message, result=result, tensors=(value,))
    for axis, (whole, part) in enumerate(zip(value.shape.dims, size, strict=True)):
        if less(whole, part):
            message = f"{part} elements are taken of {whole} at axis {axis} of {value.shape}"
            raise Mismatch(WINDOW_TOO_LARGE, message, result=result, tensors=(value,))
    return result


@shape_rule("tf.image.crop_and_resize")
def crop_and_resize(
    call: Call, image: Tensor, boxes: Tensor, box_indices: Value = None, crop_size: Value = None, *options: Value, **keywords: Value
) -> Tensor:
    """A part of an image for each box, all of one size."""
    need_image(call, image, ranks=(4,))
    if crop_size is None:
        raise NotKnown
    size = as_sizes(crop_size)
    rows = boxes.shape[0] if boxes.shape.rank == 2 else unknown(0)
    return image.with_shape(Shape((rows, *size, image.shape[-1])))


# -- files ------------------------------------------------------------------------------------------------------------


@shape_rule(*spelled("tf.image tf.io", "decode_jpeg decode_png decode_image decode_bmp"))
def decoded(call: Call, contents: Value, channels: Value = 0, *options: Value, **keywords: Value) -> Tensor:
    """An image of any size, with the channels that are asked for."""
    known = as_size(channels)
    depth = known if known is not None and bounds(known)[0] > 0 else unknown()
    if call.name.endswith("decode_image") and keywords.get("expand_animations", True) is not False:
        return Tensor(ANY_SHAPE, "u8", "tf")
    return Tensor(Shape((unknown(), unknown(), depth)), "u8", "tf")
