"""Pictures of digits, drawn: the strokes of a pocket calculator, slanted, shifted and more or less thick. Needs numpy alone.

It stands for the MNIST files and for the modules that read them: pictures are flat rows of numbers in [0, 1], labels are
classes or one-hot rows. The same seed gives the same pictures.
"""

import numpy as np

#: Strokes as (left, top, right, bottom): the figure is one unit wide and two units high.
STROKES = {
    "top": (0, 0, 1, 0),
    "middle": (0, 1, 1, 1),
    "bottom": (0, 2, 1, 2),
    "upper left": (0, 0, 0, 1),
    "upper right": (1, 0, 1, 1),
    "lower left": (0, 1, 0, 2),
    "lower right": (1, 1, 1, 2),
}
#: The strokes of each digit, in the order of STROKES.
FIGURES = np.array(
    [
        [1, 0, 1, 1, 1, 1, 1],
        [0, 0, 0, 0, 1, 0, 1],
        [1, 1, 1, 0, 1, 1, 0],
        [1, 1, 1, 0, 1, 0, 1],
        [0, 1, 0, 1, 1, 0, 1],
        [1, 1, 1, 1, 0, 0, 1],
        [1, 1, 1, 1, 0, 1, 1],
        [1, 0, 0, 0, 1, 0, 1],
        [1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1, 0, 1],
    ],
    dtype=bool,
)


def draw(count, side=28, seed=2021):
    """So many pictures of `side` by `side` numbers in [0, 1], as flat rows, and their classes."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)

    def varied(low, high):
        return random.uniform(low, high, (count, 1, 1)).astype(np.float32)

    width, height = varied(0.22, 0.4) * side, varied(0.4, 0.7) * side
    slant, thickness, ink = varied(-0.15, 0.3), varied(0.035, 0.085) * side, varied(0.8, 1.2)
    rows, columns = np.mgrid[0:side, 0:side].astype(np.float32)
    down = rows - side / 2 - varied(-0.08, 0.08) * side
    across = columns - side / 2 - varied(-0.08, 0.08) * side + slant * down
    u, v = across / width + 0.5, down / height * 2 + 1
    distance = np.full((count, side, side), np.inf, np.float32)
    for drawn, (left, top, right, bottom) in zip(FIGURES.T, STROKES.values()):
        beside = np.maximum(np.maximum(left - u, u - right), 0) * width
        above = np.maximum(np.maximum(top - v, v - bottom), 0) * height / 2
        stroke = np.hypot(beside, above)
        distance = np.where(drawn[labels][:, None, None], np.minimum(distance, stroke), distance)
    pictures = np.clip(ink * (1.5 - distance / thickness), 0, 1)
    return pictures.reshape(count, side * side).astype(np.float32), labels.astype(np.int64)


def one_hot(labels, classes=10):
    """Rows with a one at the class."""
    return np.eye(classes, dtype=np.float32)[labels]


class DataSet:
    """Pictures in random order, batch after batch."""

    def __init__(self, images, labels, seed=0):
        self.images = images
        self.labels = labels
        self._random = np.random.default_rng(seed)
        self._order = self._random.permutation(len(images))
        self._next = 0

    def next_batch(self, size):
        """The next pictures and labels; the order is a new one after each round."""
        if self._next + size > len(self._order):
            self._order = self._random.permutation(len(self.images))
            self._next = 0
        chosen = self._order[self._next : self._next + size]
        self._next += size
        return self.images[chosen], self.labels[chosen]


class Digits:
    """Pictures to train with and pictures to test with, labels as one-hot rows."""

    def __init__(self, count=2000, side=28):
        images, labels = draw(count + 400, side)
        self.train = DataSet(images[:count], one_hot(labels[:count]))
        self.test = DataSet(images[count:], one_hot(labels[count:]), seed=1)
