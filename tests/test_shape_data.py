"""Shapes of data whose libraries are not installed here, or that would have to be downloaded: as their documentation says."""

from __future__ import annotations

import pytest

from tensorproof.shapes.analysis import analyse_source

pytestmark = pytest.mark.area("shapes")


def _shapes(text: str) -> dict[str, str]:
    """What the names of a program hold, without the number type."""
    analysis = analyse_source(text, "data.py")
    assert not analysis.problems, [problem.message for problem in analysis.problems]
    return {hint.name: hint.shape[hint.shape.index("[") :] for hint in analysis.hints}


TORCHVISION = """
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

data = datasets.{dataset}
images, labels = next(iter(DataLoader(data, batch_size={size})))
"""

TO_TENSOR = "transform=transforms.ToTensor()"


@pytest.mark.parametrize(
    ("dataset", "size", "images"),
    [
        (f"MNIST('data', train=True, {TO_TENSOR})", 100, "[100, 1, 28, 28]"),
        (f"MNIST('data', train=True, {TO_TENSOR})", 64, "[N, 1, 28, 28]"),
        (f"FashionMNIST('data', False, {TO_TENSOR})", 50, "[50, 1, 28, 28]"),
        (f"CIFAR10('data', {TO_TENSOR})", 500, "[500, 3, 32, 32]"),
        (f"CIFAR100('data', {TO_TENSOR})", 500, "[500, 3, 32, 32]"),
        (f"SVHN('data', split='test', {TO_TENSOR})", 32, "[N, 3, 32, 32]"),
        (f"STL10('data', {TO_TENSOR})", 32, "[N, 3, 96, 96]"),
        (f"FakeData(64, (3, 20, 24), 5, {TO_TENSOR})", 32, "[32, 3, 20, 24]"),
        ("CIFAR10('data', transform=transforms.Compose([transforms.Resize(64), transforms.ToTensor()]))", 10, "[10, 3, 64, 64]"),
        ("CIFAR10('data', transform=transforms.Compose([transforms.Grayscale(), transforms.ToTensor()]))", 10, "[10, 1, 32, 32]"),
        ("CIFAR10('data', transform=transforms.Compose([transforms.Pad((1, 2)), transforms.ToTensor()]))", 10, "[10, 3, 36, 34]"),
        (
            "ImageFolder('data', transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()]))",
            8,
            "[N, 3, 224, 224]",
        ),
        ("ImageFolder('data', transforms.Compose([transforms.Resize((20, 30)), transforms.ToTensor()]))", 8, "[N, 3, 20, 30]"),
        (
            "MNIST('data', transform=transforms.Compose([transforms.ToTensor(), transforms.Lambda(lambda x: x.view(-1))]))",
            100,
            "[100, 784]",
        ),
    ],
)
def test_torchvision_pictures_come_as_their_transforms_make_them(dataset: str, size: int, images: str) -> None:
    found = _shapes(TORCHVISION.format(dataset=dataset, size=size))
    assert found["images"] == images
    assert found["labels"] == f"[{images[1:].partition(',')[0]}]"


def test_pil_images_are_read_with_unknown_sizes_and_resized() -> None:
    found = _shapes(
        "from PIL import Image\nimport numpy as np\n"
        "picture = Image.open('cat.png').convert('RGB')\nwhole = np.array(picture)\nsmall = np.array(picture.resize((30, 20)))\n"
    )
    assert found == {"whole": "[?, ?, 3]", "small": "[20, 30, 3]"}


@pytest.mark.parametrize(
    ("name", "x", "y", "x_test"),
    [
        ("mnist", "[60000, 28, 28]", "[60000]", "[10000, 28, 28]"),
        ("cifar10", "[50000, 32, 32, 3]", "[50000, 1]", "[10000, 32, 32, 3]"),
        ("boston_housing", "[404, 13]", "[404]", "[102, 13]"),
        ("imdb", "[25000]", "[25000]", "[25000]"),
    ],
)
def test_keras_datasets(name: str, x: str, y: str, x_test: str) -> None:
    found = _shapes(f"import keras\n(x, y), (x_test, y_test) = keras.datasets.{name}.load_data()\n")
    assert (found["x"], found["y"], found["x_test"]) == (x, y, x_test)


def test_digits_of_the_tutorials_of_tensorflow_1() -> None:
    found = _shapes(
        "from tensorflow.examples.tutorials.mnist import input_data\n"
        "mnist = input_data.read_data_sets('MNIST_data', one_hot=True)\n"
        "x, y = mnist.train.next_batch(50)\nimages = mnist.test.images\nlabels = mnist.validation.labels\n"
    )
    assert found == {"x": "[50, 784]", "y": "[50, 10]", "images": "[10000, 784]", "labels": "[5000, 10]"}


def test_tables_of_scikit_learn_are_split_and_scaled() -> None:
    found = _shapes(
        "from sklearn.datasets import load_iris, make_classification\n"
        "from sklearn.model_selection import train_test_split\nfrom sklearn.preprocessing import StandardScaler\n"
        "iris = load_iris()\na, b, c, d = train_test_split(iris.data, iris.target, test_size=0.3)\n"
        "scaled = StandardScaler().fit_transform(a)\nx, y = make_classification(n_samples=200, n_features=7)\n"
    )
    assert found == {
        "a": "[105, 4]", "b": "[45, 4]", "c": "[105]", "d": "[45]", "scaled": "[105, 4]", "x": "[200, 7]", "y": "[200]",
    }  # fmt: skip


def test_arrays_of_other_lengths_cannot_be_split_together() -> None:
    text = (
        "import numpy as np\nfrom sklearn.model_selection import train_test_split\n"
        "parts = train_test_split(np.zeros((100, 3)), np.zeros(90))\n"
    )
    assert [problem.rule.code for problem in analyse_source(text, "data.py").problems] == ["SHP120"]


@pytest.mark.parametrize(
    ("steps", "shape"),
    [
        (".batch(32)", "[N, 4]"),
        (".batch(50)", "[50, 4]"),
        (".batch(32, drop_remainder=True)", "[32, 4]"),
        (".repeat().batch(32)", "[32, 4]"),
        (".batch(32).repeat()", "[N, 4]"),
        (".map(lambda row: row[:2]).batch(25)", "[25, 2]"),
    ],
)
def test_batches_of_tf_data(steps: str, shape: str) -> None:
    text = f"import numpy as np\nimport tensorflow as tf\nfor x in tf.data.Dataset.from_tensor_slices(np.zeros((100, 4))){steps}:\n    y = x\n"
    assert _shapes(text)["y"] == shape
