"""Data sets that everybody uses: what their loaders return."""

# Methods of described classes are rules: they receive the call.
# ruff: noqa: PLE0302

from __future__ import annotations

import math
from collections.abc import Callable

from tensorproof.rules.shapes.sample_counts import SAMPLE_COUNTS
from tensorproof.shapes.families.function_transforms import called
from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.families.pictures import image
from tensorproof.shapes.iteration import iterate
from tensorproof.shapes.rule_table import CLASSES, Call, Mismatch, NotKnown, native_class, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, same, unknown
from tensorproof.shapes.values import UNKNOWN, ListValue, NativeObject, Tensor, Value, as_size

Arguments = tuple[Value, ...]
Options = dict[str, Value]


def _array(*sizes: Size, dtype: str = "f64") -> Tensor:
    return Tensor(Shape(sizes), dtype, "numpy")


# -- torchvision ------------------------------------------------------------------------------------------------------

#: Rows, columns and channels (0: grey); samples for training and for testing; classes.
_PICTURES: dict[str, tuple[tuple[int, int, int], tuple[int, int], int]] = {
    "MNIST": ((28, 28, 0), (60_000, 10_000), 10),
    "FashionMNIST": ((28, 28, 0), (60_000, 10_000), 10),
    "KMNIST": ((28, 28, 0), (60_000, 10_000), 10),
    "CIFAR10": ((32, 32, 3), (50_000, 10_000), 10),
    "CIFAR100": ((32, 32, 3), (50_000, 10_000), 100),
    "USPS": ((16, 16, 0), (7_291, 2_007), 10),
}


class _Pictures:
    """Pictures with their labels, behind the program's transforms."""

    root: Value = None
    train: Value = True
    transform: Value = None
    target_transform: Value = None
    download: Value = False
    name = ""

    def _samples(self) -> Size:
        counts = _PICTURES[self.name][1]
        return counts[0] if self.train is True else counts[1] if self.train is False else unknown()

    def __getitem__(self, call: Call, index: Value) -> Value:
        rows, columns, channels = _PICTURES[self.name][0]
        picture: Value = image(call, rows, columns, channels)
        label: Value = unknown(0, _PICTURES[self.name][2] - 1)
        return _transformed(call, picture, label, self.transform, self.target_transform)

    def __len__(self, call: Call) -> Value:
        return self._samples()

    @property
    def data(self) -> Value:
        sizes = _PICTURES[self.name][0]
        shape = Shape((self._samples(), *(size for size in sizes if size)))
        return Tensor(shape, "u8", "torch" if "MNIST" in self.name else "numpy")

    @property
    def targets(self) -> Value:
        count = self._samples()
        return Tensor(Shape((count,)), "i64", "torch") if "MNIST" in self.name else ListValue(None, unknown(0), count)

    @property
    def classes(self) -> Value:
        return ListValue(("",) * _PICTURES[self.name][2])


def _transformed(call: Call, picture: Value, label: Value, transform: Value, target_transform: Value) -> Value:
    seen = picture if transform is None else called(call, transform, (picture,))
    return (seen, label if target_transform is None else called(call, target_transform, (label,)))


@native_class("torchvision.datasets.MNIST")
class Mnist(_Pictures):
    """Digits."""

    name = "MNIST"


@native_class("torchvision.datasets.FashionMNIST")
class FashionMnist(_Pictures):
    """Clothes."""

    name = "FashionMNIST"


@native_class("torchvision.datasets.KMNIST")
class KanjiMnist(_Pictures):
    """Characters."""

    name = "KMNIST"


@native_class("torchvision.datasets.CIFAR10")
class Cifar10(_Pictures):
    """Small pictures of ten classes."""

    name = "CIFAR10"


@native_class("torchvision.datasets.CIFAR100")
class Cifar100(_Pictures):
    """Small pictures of a hundred classes."""

    name = "CIFAR100"


@native_class("torchvision.datasets.USPS")
class Usps(_Pictures):
    """Digits of letters."""

    name = "USPS"


class _SplitPictures:
    """Pictures that are chosen by the name of a split."""

    root: Value = None
    split: Value = "train"
    transform: Value = None
    target_transform: Value = None
    download: Value = False
    options: Options
    sizes = (32, 32)

    def __getitem__(self, call: Call, index: Value) -> Value:
        picture: Value = image(call, *self.sizes, 3)
        return _transformed(call, picture, unknown(0), self.transform, self.target_transform)

    def __len__(self, call: Call) -> Value:
        return unknown()


@native_class("torchvision.datasets.SVHN")
class Svhn(_SplitPictures):
    """House numbers."""


@native_class("torchvision.datasets.STL10")
class Stl10(_SplitPictures):
    """Pictures of 96 pixels."""

    sizes = (96, 96)


@native_class("torchvision.datasets.ImageFolder", "torchvision.datasets.DatasetFolder")
class ImageFolder:
    """Pictures from folders: colours, of any size."""

    root: Value
    transform: Value = None
    target_transform: Value = None
    options: Options

    def __getitem__(self, call: Call, index: Value) -> Value:
        return _transformed(call, image(call, unknown(), unknown(), 3), unknown(0), self.transform, self.target_transform)

    def __len__(self, call: Call) -> Value:
        return unknown()


@native_class(
    "torchvision.datasets.ImageNet",
    "torchvision.datasets.Food101",
    "torchvision.datasets.Flowers102",
    "torchvision.datasets.OxfordIIITPet",
)
class LargePictures(ImageFolder):
    """Photographs of any size."""

    root: Value
    split: Value = "train"
    transform: Value = None


@native_class("torchvision.datasets.FakeData")
class FakeData:
    """Random pictures."""

    size: Value = 1000
    image_size: Value = (3, 224, 224)
    num_classes: Value = 10
    transform: Value = None
    target_transform: Value = None
    options: Options

    def __getitem__(self, call: Call, index: Value) -> Value:
        sizes = [as_size(size) for size in iterate(call.run, self.image_size).items or ()]
        if len(sizes) != 3 or None in sizes:
            raise NotKnown
        channels, rows, columns = (size for size in sizes if size is not None)
        depth = 0 if channels == 1 else channels if isinstance(channels, int) else None
        return _transformed(call, image(call, rows, columns, depth), unknown(0), self.transform, self.target_transform)

    def __len__(self, call: Call) -> Value:
        return self.size


# -- Keras ------------------------------------------------------------------------------------------------------------

#: Shapes of one sample and its label; samples for training and testing.
_KERAS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, int], str]] = {
    "mnist": ((28, 28), (), (60_000, 10_000), "u8"),
    "fashion_mnist": ((28, 28), (), (60_000, 10_000), "u8"),
    "cifar10": ((32, 32, 3), (1,), (50_000, 10_000), "u8"),
    "cifar100": ((32, 32, 3), (1,), (50_000, 10_000), "u8"),
    "boston_housing": ((13,), (), (404, 102), "f64"),
    "imdb": ((), (), (25_000, 25_000), ""),
    "reuters": ((), (), (8_982, 2_246), ""),
}


@shape_rule(*(f"keras.datasets.{name}.load_data" for name in _KERAS))
def keras_data(call: Call, *arguments: Value, **options: Value) -> Value:
    """`((x, y), (x, y))` for training and testing."""
    name = call.name.split(".")[-2]
    sample, label, counts, dtype = _KERAS[name]
    resized = any(key in options for key in ("test_split", "maxlen", "skip_top"))
    sizes: tuple[Size, ...] = tuple(unknown() for _ in counts) if resized else counts
    return tuple(
        (_array(count, *sample, dtype=dtype), _array(count, *label, dtype="i64" if sample != (13,) else "f64")) for count in sizes
    )


# -- tutorials of TensorFlow 1 ----------------------------------------------------------------------------------------


@native_class("tf.examples.tutorials.mnist.input_data.DataSet")
class TutorialData:
    """Digits as rows of 784 numbers, and batches of them."""

    count: Value
    one_hot: Value
    reshape: Value

    def _pair(self, count: Size) -> tuple[Value, Value]:
        classes: tuple[Size, ...] = (10,) if self.one_hot is True else ()
        sample: tuple[Size, ...] = (784,) if self.reshape is True else (28, 28, 1)
        return (_array(count, *sample, dtype="f32"), _array(count, *classes, dtype="f64" if classes else "u8"))

    def next_batch(self, call: Call, batch_size: Value, *arguments: Value, **options: Value) -> Value:
        count = as_size(batch_size)
        return self._pair(unknown() if count is None else count)

    @property
    def images(self) -> Value:
        return self._pair(as_size(self.count) or unknown())[0]

    @property
    def labels(self) -> Value:
        return self._pair(as_size(self.count) or unknown())[1]

    @property
    def num_examples(self) -> Value:
        return self.count


@shape_rule(
    "tf.examples.tutorials.mnist.input_data.read_data_sets", "input_data.read_data_sets",
    *spelled("tf.contrib.learn.datasets.mnist tf.contrib.learn.python.learn.datasets.mnist", "read_data_sets load_mnist"),
)  # fmt: skip
def read_data_sets(
    call: Call,
    train_dir: Value = None,
    fake_data: Value = False,
    one_hot: Value = False,
    dtype: Value = None,
    reshape: Value = True,
    validation_size: Value = 5000,
    **options: Value,
) -> Value:
    """`mnist.train`, `mnist.validation`, `mnist.test`."""
    kept = as_size(validation_size)
    validation: Size = unknown(0) if kept is None else kept
    cls = CLASSES["tf.examples.tutorials.mnist.input_data.DataSet"]
    parts: dict[str, Size] = {"train": 60_000 - validation, "validation": validation, "test": 10_000}
    sets = {name: NativeObject(cls, call.place, count=count, one_hot=one_hot, reshape=reshape) for name, count in parts.items()}
    return NativeObject(CLASSES["types.SimpleNamespace"], call.place, **sets)


# -- scikit-learn -----------------------------------------------------------------------------------------------------

_TABLES = {
    "load_iris": (150, 4, 3), "load_digits": (1797, 64, 10), "load_breast_cancer": (569, 30, 2), "load_wine": (178, 13, 3),
    "load_diabetes": (442, 10, 0), "fetch_california_housing": (20640, 8, 0),
}  # fmt: skip


@shape_rule(*(f"sklearn.datasets.{name}" for name in _TABLES))
def table(call: Call, *arguments: Value, return_X_y: Value = False, as_frame: Value = False, **options: Value) -> Value:
    """A table of numbers and its target."""
    name = call.name.rpartition(".")[2]
    if as_frame is not False or arguments or (name == "load_digits" and options):
        return UNKNOWN
    rows, columns, classes = _TABLES[name]
    target = _array(rows, dtype="i64" if classes else "f64")
    if return_X_y is True:
        return (_array(rows, columns), target)
    pictures = {"images": _array(rows, 8, 8)} if name == "load_digits" else {}
    names = {"target_names": _array(classes, dtype="")} if classes else {}
    return NativeObject(
        CLASSES["types.SimpleNamespace"], call.place, data=_array(rows, columns), target=target, **pictures, **names
    )


@shape_rule(
    *spelled(
        "sklearn.datasets", "make_classification make_regression make_blobs make_moons make_circles make_swiss_roll make_s_curve"
    )
)
def made_table(call: Call, n_samples: Value = 100, n_features: Value = UNKNOWN, **options: Value) -> Value:
    """Random points and their target."""
    defaults = {"make_classification": 20, "make_regression": 100, "make_blobs": 2, "make_swiss_roll": 3, "make_s_curve": 3}
    name = call.name.rpartition(".")[2]
    rows, columns = as_size(n_samples), as_size(n_features)
    targets = as_size(options.get("n_targets", 1))
    if rows is None or options.get("coef") or options.get("return_centers"):
        return UNKNOWN
    features = 2 if name in ("make_moons", "make_circles") else columns if columns is not None else defaults.get(name, 2)
    if name in ("make_swiss_roll", "make_s_curve"):
        features = 3
    target = _array(rows) if targets == 1 else _array(rows, unknown() if targets is None else targets)
    return (_array(rows, features), target)


@shape_rule("sklearn.model_selection.train_test_split", "sklearn.cross_validation.train_test_split")
def train_test_split(
    call: Call, *arrays: Value, test_size: Value = None, train_size: Value = None, shuffle: Value = True, **options: Value
) -> Value:
    """Every array in two parts; all have equally many rows."""
    tensors = [array for array in arrays if isinstance(array, Tensor) and array.shape.head]
    for tensor in tensors[1:]:
        if same(tensor.shape.head[0], tensors[0].shape.head[0]) is False:
            message = (
                f"train_test_split takes arrays of equally many rows, but {tensors[0].shape} has {tensors[0].shape.head[0]} "
                f"and {tensor.shape} has {tensor.shape.head[0]}"
            )
            raise Mismatch(SAMPLE_COUNTS, message, tensors=(tensors[0], tensor))
    parts: list[Value] = []
    counts: dict[Size, tuple[Size, Size]] = {}
    for array in arrays:
        if isinstance(array, Tensor) and array.shape.head:
            rows = array.shape.head[0]
            if rows not in counts:
                counts[rows] = _split_counts(rows, test_size, train_size)
            parts += [array.with_shape(Shape((count, *array.shape.head[1:]), array.shape.tail)) for count in counts[rows]]
        else:
            parts += [UNKNOWN, UNKNOWN]
    return ListValue(parts)


def _split_counts(rows: Size, test_size: Value, train_size: Value) -> tuple[Size, Size]:
    """Rows for training and for testing: a share, rounded up for the test, or a number."""
    if not isinstance(rows, int):
        return unknown(), unknown()
    test = _share(test_size, rows, math.ceil)
    train = _share(train_size, rows, math.floor)
    if test_size is None and train_size is None:
        test = math.ceil(0.25 * rows)
    if test is None and test_size is None and train is not None:
        test = rows - train
    if train is None and train_size is None and test is not None:
        train = rows - test
    return (unknown() if train is None else train, unknown() if test is None else test)


def _share(size: Value, rows: int, rounded: Callable[[float], int]) -> int | None:
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    return rounded(size * rows) if isinstance(size, float) else None


@native_class(
    *spelled(
        "sklearn.preprocessing",
        "StandardScaler MinMaxScaler RobustScaler MaxAbsScaler Normalizer QuantileTransformer PowerTransformer",
    )
)
class Scaler:
    """Columns brought to one scale: shapes stay."""

    arguments: Arguments
    options: Options

    def fit(self, call: Call, X: Value, *arguments: Value, **options: Value) -> Value:
        return call.receiver

    partial_fit = fit

    def transform(self, call: Call, X: Value, *arguments: Value, **options: Value) -> Value:
        return X.with_shape(X.shape, framework="numpy") if isinstance(X, Tensor) else UNKNOWN

    fit_transform = inverse_transform = transform
