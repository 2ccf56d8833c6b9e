"""Pretrained models of Keras as contracts: what images they take, and what features or classes come out."""

from __future__ import annotations

from tensorproof.shapes import applying
from tensorproof.shapes.families.keras_layers import need_rank
from tensorproof.shapes.families.keras_models import Model, declared_shape
from tensorproof.shapes.families.modules import write
from tensorproof.shapes.rule_table import RULES, Call, native_class, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, remainder, unknown
from tensorproof.shapes.values import Tensor, Value

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
#: Models that halve an image five times, whatever its size; a multiple of 32 leaves no doubt about rounding.
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
    if classes is not None:
        return input.with_shape(Shape((batch, classes if isinstance(classes, int) else unknown())), dtype="f32")
    if pooling in ("avg", "max"):
        return input.with_shape(Shape((batch, channels)), dtype="f32")
    if pooling is not None:
        return input.with_shape(Shape((batch,), (channels,)), dtype="f32")
    return input.with_shape(Shape((batch, _halved(height, model), _halved(width, model), channels)), dtype="f32")


def _halved(size: Size, model: str) -> Size:
    return size // 32 if model not in _WITHOUT_PADDING and remainder(size, 32) == 0 else unknown()


@native_class("keras.applications.Application")
class Application(Model):
    """A functional model whose inside is not looked at."""

    # The fields of `Model` come first in the order of parameters; those of an application are given by name.
    include_top: Value = True
    weights: Value = "imagenet"
    input_tensor: Value = None
    input_shape: Value = None
    pooling: Value = None
    classes: Value = 1000


class Application(Application):
    pass
