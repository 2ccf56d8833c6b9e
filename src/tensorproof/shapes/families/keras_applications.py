"""Pretrained models of Keras as contracts: what images they take, and what features or classes come out."""

from __future__ import annotations

from tensorproof.shapes import applying
from tensorproof.shapes.families.keras_layers import need_rank
from tensorproof.shapes.families.keras_models import declared_shape, functional_fields
from tensorproof.shapes.rule_table import CLASSES, RULES, Call, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, remainder, unknown
from tensorproof.shapes.values import UNKNOWN, NativeObject, Tensor, Unknown, Value

#: The channels of the features, and the size of image that a model with its classes takes.
_FEATURES: dict[str, tuple[int, int]] = {
    "VGG16": (512, 224),
    "VGG19": (512, 224),
    "ResNet50": (2048, 224),
    "ResNet101": (2048, 224),
    "ResNet152": (2048, 224),
    "ResNet50V2": (2048, 224),
    "ResNet101V2": (2048, 224),
    "ResNet152V2": (2048, 224),
    "MobileNet": (1024, 224),
    "MobileNetV2": (1280, 224),
    "DenseNet121": (1024, 224),
    "DenseNet169": (1664, 224),
    "DenseNet201": (1920, 224),
    "EfficientNetB0": (1280, 224),
    "EfficientNetB1": (1280, 240),
    "EfficientNetB2": (1408, 260),
    "EfficientNetB3": (1536, 300),
    "EfficientNetB4": (1792, 380),
    "EfficientNetB5": (2048, 456),
    "EfficientNetB6": (2304, 528),
    "EfficientNetB7": (2560, 600),
    "EfficientNetV2B0": (1280, 224),
    "EfficientNetV2B1": (1280, 240),
    "EfficientNetV2B2": (1408, 260),
    "EfficientNetV2B3": (1536, 300),
    "EfficientNetV2S": (1280, 384),
    "InceptionV3": (2048, 299),
    "InceptionResNetV2": (1536, 299),
    "Xception": (2048, 299),
}
APPLICATIONS = tuple(f"keras.applications.{name}" for name in _FEATURES)
#: Models that do not simply halve an image five times. Of the others a multiple of 32 leaves no doubt about rounding.
_WITHOUT_PADDING = frozenset({"InceptionV3", "InceptionResNetV2", "Xception"})


@shape_rule("keras.applications.preprocess_input")
def preprocess_input(x: Tensor, data_format: Value = None, mode: Value = None) -> Tensor:
    """Colours as a model expects them; the arrays of the program stay what they are."""
    return x.with_shape(x.shape)


@shape_rule("keras.applications.features")
def features(call: Call, images: Tensor, model: str, classes: Value, pooling: Value) -> Tensor:
    """The network itself: classes, pooled features, or a map of features."""
    channels, _ = _FEATURES[model]
    input = need_rank(call, images, 4)
    batch, height, width, _ = input.shape.dims
    if isinstance(classes, Unknown):
        return input.with_shape(ANY_SHAPE)
    if classes is not None:
        return input.with_shape(Shape((batch, classes if isinstance(classes, int) else unknown())), dtype="f32")
    if pooling in ("avg", "max"):
        return input.with_shape(Shape((batch, channels)), dtype="f32")
    if pooling is not None:
        return input.with_shape(Shape((batch,), (channels,)), dtype="f32")
    return input.with_shape(Shape((batch, _halved(height, model), _halved(width, model), channels)), dtype="f32")


def _halved(size: Size, model: str) -> Size:
    if model.startswith("VGG"):
        return size // 32
    return size // 32 if model not in _WITHOUT_PADDING and remainder(size, 32) == 0 else unknown()


def _made(call: Call, include_top: Value, input_tensor: Value, input_shape: Value, pooling: Value, classes: Value) -> NativeObject:
    """A functional model whose inside is one step."""
    name = call.name.rpartition(".")[2]
    shape = input_shape
    if shape is None:
        side = _FEATURES[name][1] if include_top is True else None
        shape = (side, side, 3)
    images = input_tensor if isinstance(input_tensor, Tensor) else Tensor(declared_shape(shape), "f32", "keras", contiguous=None)
    top = None if include_top is False else classes if include_top is True else UNKNOWN
    inside = "keras.applications.features"
    output = applying.apply_rule(call.run, call.place, RULES[inside], inside, (images, name, top, pooling), {})
    return NativeObject(CLASSES["keras.Model"], call.place, **functional_fields(images, output))


@shape_rule(*(name for name in APPLICATIONS if ".MobileNet" not in name))
def application(
    call: Call,
    include_top: Value = True,
    weights: Value = "imagenet",
    input_tensor: Value = None,
    input_shape: Value = None,
    pooling: Value = None,
    classes: Value = 1000,
    **options: Value,
) -> Value:
    """A pretrained model."""
    return _made(call, include_top, input_tensor, input_shape, pooling, classes)


@shape_rule("keras.applications.MobileNet", "keras.applications.MobileNetV2")
def mobile_application(
    call: Call,
    input_shape: Value = None,
    alpha: Value = 1.0,
    include_top: Value = True,
    weights: Value = "imagenet",
    input_tensor: Value = None,
    pooling: Value = None,
    classes: Value = 1000,
    **options: Value,
) -> Value:
    """A small pretrained model; other widths than the usual one are not known."""
    if alpha not in (1, 1.0):
        return UNKNOWN
    return _made(call, include_top, input_tensor, input_shape, pooling, classes)
