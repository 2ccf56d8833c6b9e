"""Metrics and initialisers of Keras, and its layers for images and features."""

from __future__ import annotations

from tensorproof.shapes.families.keras_companions import INITIALIZERS, METRICS
from tests.shape_cases import Draw, cases

_IMAGE_LAYERS = {
    "AugMix": "",
    "AutoContrast": "",
    "Equalization": "",
    "RandAugment": "",
    "RandomBrightness": "0.2",
    "RandomColorDegeneration": "0.2",
    "RandomColorJitter": "brightness_factor=0.2",
    "RandomContrast": "0.2",
    "RandomElasticTransform": "",
    "RandomErasing": "",
    "RandomFlip": "'horizontal'",
    "RandomGaussianBlur": "",
    "RandomGrayscale": "",
    "RandomHue": "0.1",
    "RandomInvert": "",
    "RandomPerspective": "",
    "RandomPosterization": "4",
    "RandomRotation": "0.1",
    "RandomSaturation": "0.1",
    "RandomSharpness": "0.1",
    "RandomShear": "0.1",
    "RandomTranslation": "0.1, 0.1",
    "RandomZoom": "0.1",
    "Solarization": "",
}


@cases(*(f"keras.layers.{name}" for name in _IMAGE_LAYERS))
def _(draw: Draw) -> str:
    shape = (draw.integer(1, 3), draw.integer(1, 5), draw.integer(1, 5), 3)
    return f"{draw.name}({_IMAGE_LAYERS[draw.short]})(keras.Input(batch_shape={shape}))"


@cases("keras.layers.RandomCrop")
def _(draw: Draw) -> str:
    shape = (draw.integer(1, 3), draw.integer(1, 5), draw.integer(1, 5), 3)
    return f"{draw.name}({draw.integer(1, 5)}, {draw.integer(1, 5)})(keras.Input(batch_shape={shape}))"


_FEATURE_LAYERS = {
    "Discretization": "bin_boundaries=[0.0, 1.0]",
    "Hashing": "3",
    "IntegerLookup": "vocabulary=[1, 2]",
    "Normalization": "mean=0.0, variance=1.0",
}


@cases(*(f"keras.layers.{name}" for name in _FEATURE_LAYERS))
def _(draw: Draw) -> str:
    array = draw.array(draw.shape(2, 3))
    whole = f"keras.ops.cast({array}, 'int64')" if draw.short in ("Hashing", "IntegerLookup") else array
    return f"{draw.name}({_FEATURE_LAYERS[draw.short]})({whole})"


@cases(*INITIALIZERS)
def _(draw: Draw) -> str:
    return f"{draw.name}()({draw.shape(2, 2)})"


_METRIC_OPTIONS = {
    "BinaryIoU": "",
    "IoU": "num_classes=2, target_class_ids=[0]",
    "MeanIoU": "num_classes=2",
    "OneHotIoU": "num_classes=3, target_class_ids=[0]",
    "OneHotMeanIoU": "num_classes=3",
    "PrecisionAtRecall": "0.5",
    "RecallAtPrecision": "0.5",
    "SensitivityAtSpecificity": "0.5",
    "SpecificityAtSensitivity": "0.5",
}


@cases(*(name for name in METRICS if name != "keras.metrics.Metric"), imprecise=True)
def _(draw: Draw) -> str:
    array = draw.array((draw.integer(1, 4), 3))
    if draw.short in ("Mean", "Sum"):
        return f"{draw.name}()({array})"
    target = draw.array((1, 1)) if "Sparse" in draw.short else array
    array = draw.array((1, 3)) if "Sparse" in draw.short else array
    return f"{draw.name}({_METRIC_OPTIONS.get(draw.short, '')})({target}, {array})"


@cases("keras.applications.preprocess_input")
def _(draw: Draw) -> str:
    return f"keras.applications.{draw.pick(['vgg16', 'resnet50', 'mobilenet_v2'])}.preprocess_input({draw.array((*draw.shape(2, 3), 3))})"
