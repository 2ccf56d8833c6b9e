"""Pictures: PIL's images and the transforms of torchvision.

An image of PIL is kept as the array that NumPy makes of it (rows, columns and, if there are several, channels).
"""

from __future__ import annotations

from tensorproof.shapes.families.function_transforms import called
from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.iteration import any_of, iterate
from tensorproof.shapes.rule_table import CLASSES, Call, NotKnown, as_sizes, native_class, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, same, unknown
from tensorproof.shapes.values import UNKNOWN, NativeObject, Tensor, Value, as_size

Arguments = tuple[Value, ...]
Options = dict[str, Value]
_CHANNELS = {"L": 0, "1": 0, "P": 0, "F": 0, "I": 0, "RGB": 3, "RGBA": 4, "CMYK": 4, "HSV": 3, "YCbCr": 3, "LAB": 3, "LA": 2}


@native_class("PIL.Image.Image")
class Image:
    """An image of PIL. `tensor` is its array."""

    tensor: Value

    def convert(self, call: Call, mode: Value = None, *arguments: Value, **options: Value) -> Value:
        return image(call, *_plane(self.tensor), _CHANNELS.get(mode) if isinstance(mode, str) else None)

    def resize(self, call: Call, size: Value, *arguments: Value, **options: Value) -> Value:
        sizes = as_sizes(size)
        if len(sizes) != 2:
            raise NotKnown
        return image(call, sizes[1], sizes[0], _channels(self.tensor))

    def copy(self, call: Call) -> Value:
        return call.receiver

    filter = copy

    def crop(self, call: Call, box: Value = None) -> Value:
        return image(call, unknown(), unknown(), _channels(self.tensor))

    rotate = transpose = crop

    @property
    def size(self) -> Value:
        rows, columns = _plane(self.tensor)
        return (columns, rows)

    @property
    def height(self) -> Value:
        return _plane(self.tensor)[0]

    @property
    def width(self) -> Value:
        return _plane(self.tensor)[1]


def image(call: Call, rows: Size, columns: Size, channels: int | None) -> NativeObject:
    """An image of PIL; 0 channels are one grey value per pixel, None is not known."""
    shape = Shape((rows, columns), ()) if channels is None else Shape((rows, columns, channels) if channels else (rows, columns))
    return NativeObject(CLASSES["PIL.Image.Image"], call.place, tensor=Tensor(shape, "u8", "numpy"))


def _plane(tensor: Value) -> tuple[Size, Size]:
    shape = tensor.shape if isinstance(tensor, Tensor) else ANY_SHAPE
    return (shape.head[0], shape.head[1]) if len(shape.head) >= 2 else (unknown(), unknown())


def _channels(tensor: Value) -> int | None:
    if not isinstance(tensor, Tensor) or tensor.shape.rank is None:
        return None
    size = tensor.shape.dims[2] if tensor.shape.rank == 3 else 0
    return size if isinstance(size, int) else None


@shape_rule("PIL.Image.open", "PIL.Image.fromarray", "PIL.Image.new")
def open_image(call: Call, source: Value = None, *arguments: Value, **options: Value) -> Value:
    """An image from a file, of which nothing is known, or from an array."""
    if call.name.endswith("fromarray") and isinstance(source, Tensor):
        return NativeObject(CLASSES["PIL.Image.Image"], call.place, tensor=source)
    return image(call, unknown(), unknown(), None)


# -- transforms -------------------------------------------------------------------------------------------------------


def _is_picture(value: Value) -> bool:
    return isinstance(value, NativeObject) and value.cls is CLASSES["PIL.Image.Image"]


def with_plane(call: Call, picture: Value, rows: Size, columns: Size) -> Value:
    """The picture with other rows and columns: an image of PIL, or a tensor with channels first."""
    if isinstance(picture, NativeObject) and _is_picture(picture):
        return image(call, rows, columns, _channels(picture.slots["tensor"]))
    if isinstance(picture, Tensor):
        return picture.with_shape(picture.shape.without_last(2).extended(rows, columns))
    return UNKNOWN


def plane_of(picture: Value) -> tuple[Size, Size]:
    """Rows and columns."""
    if isinstance(picture, NativeObject) and _is_picture(picture):
        return _plane(picture.slots["tensor"])
    if isinstance(picture, Tensor) and (picture.shape.rank is None or picture.shape.rank >= 2):
        return picture.shape[-2], picture.shape[-1]
    return unknown(), unknown()


def _pair(size: Value) -> tuple[Size, Size]:
    sizes = as_sizes(size)
    return (sizes[0], sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])


_BOTH = "torchvision.transforms torchvision.transforms.v2"


@native_class(*spelled(_BOTH, "Compose Sequential RandomOrder"))
class Compose:
    """Transforms one after the other."""

    transforms: Value

    def __call__(self, call: Call, img: Value) -> Value:
        steps = iterate(call.run, self.transforms).items
        if steps is None:
            return UNKNOWN
        for step in steps:
            img = called(call, step, (img,))
        return img


@native_class(*spelled(_BOTH, "RandomApply RandomChoice"))
class RandomApply:
    """Transforms that are applied, or not."""

    transforms: Value
    p: Value = 0.5

    def __call__(self, call: Call, img: Value) -> Value:
        steps = iterate(call.run, self.transforms).items
        return UNKNOWN if steps is None else any_of(call.run, (img, *(called(call, step, (img,)) for step in steps)))


def tensor_of(picture: Value) -> Value:
    """Channels first: what `ToTensor` makes of an image, or of an array with channels last."""
    array = picture.slots["tensor"] if isinstance(picture, NativeObject) and _is_picture(picture) else picture
    if not isinstance(array, Tensor) or (array.framework == "torch" and array is picture):
        return UNKNOWN
    shape = array.shape
    if shape.rank == 2:
        return Tensor(shape.preceded(1), "f32", "torch", history=array.history)
    if shape.rank == 3:
        rows, columns, channels = shape.dims
        return Tensor(Shape((channels, rows, columns)), "f32", "torch", history=array.history)
    return Tensor(Shape((unknown(), *shape.head[:2])), "f32", "torch") if shape.rank is None and len(shape.head) >= 2 else UNKNOWN


@native_class(*spelled(_BOTH, "ToTensor PILToTensor ToImage"))
class ToTensor:
    """A tensor with channels first."""

    def __call__(self, call: Call, pic: Value) -> Value:
        return tensor_of(pic)


@shape_rule("torchvision.transforms.functional.to_tensor", "torchvision.transforms.functional.pil_to_tensor")
def to_tensor(pic: Value) -> Value:
    """The same as a function."""
    return tensor_of(pic)


@native_class(*spelled(_BOTH, "Resize"))
class Resize:
    """Rows and columns, or the size of the shorter side."""

    size: Value
    options: Options

    def __call__(self, call: Call, img: Value) -> Value:
        return resized(call, img, self.size)


def resized(call: Call, picture: Value, size: Value) -> Value:
    """A picture of another size; one number is that of the shorter side."""
    sizes = as_sizes(size)
    if len(sizes) == 2:
        return with_plane(call, picture, sizes[0], sizes[1])
    rows, columns = plane_of(picture)
    if same(rows, columns):
        return with_plane(call, picture, sizes[0], sizes[0])
    low = sizes[0] if isinstance(sizes[0], int) else 1
    return with_plane(call, picture, unknown(low), unknown(low))


@shape_rule("torchvision.transforms.functional.resize")
def resize(call: Call, img: Value, size: Value, *arguments: Value, **options: Value) -> Value:
    """The same as a function."""
    return resized(call, img, size)


@native_class(*spelled(_BOTH, "CenterCrop RandomCrop RandomResizedCrop"))
class Crop:
    """A part of the picture."""

    size: Value
    arguments: Arguments
    options: Options

    def __call__(self, call: Call, img: Value) -> Value:
        return with_plane(call, img, *_pair(self.size))


@shape_rule("torchvision.transforms.functional.center_crop")
def center_crop(call: Call, img: Value, output_size: Value) -> Value:
    """The same as a function."""
    return with_plane(call, img, *_pair(output_size))


@native_class(*spelled(_BOTH, "Pad"))
class Pad:
    """Pixels around the picture: on all sides, left and right and above and below, or one number for each."""

    padding: Value
    options: Options

    def __call__(self, call: Call, img: Value) -> Value:
        sizes = as_sizes(self.padding)
        left, above, right, below = sizes * (4 // len(sizes)) if len(sizes) in (1, 2, 4) else (unknown(0),) * 4
        rows, columns = plane_of(img)
        return with_plane(call, img, rows + above + below, columns + left + right)


@native_class(*spelled(_BOTH, "Grayscale"))
class Grayscale:
    """Grey values, once or three times."""

    num_output_channels: Value = 1

    def __call__(self, call: Call, img: Value) -> Value:
        count = as_size(self.num_output_channels)
        if isinstance(img, Tensor):
            if img.shape.rank is None or img.shape.rank < 3 or count is None:
                return UNKNOWN
            return img.with_shape(Shape((*img.shape.dims[:-3], count, *img.shape.dims[-2:])))
        if not _is_picture(img):
            return UNKNOWN
        return image(call, *plane_of(img), 0 if count == 1 else 3 if count == 3 else None)


_KEEPING = (
    "Normalize ConvertImageDtype ToDtype RandomHorizontalFlip RandomVerticalFlip ColorJitter RandomErasing GaussianBlur "
    "RandomAffine RandomPerspective RandomInvert RandomPosterize RandomSolarize RandomAdjustSharpness RandomAutocontrast "
    "RandomEqualize AutoAugment RandAugment TrivialAugmentWide AugMix ElasticTransform RandomPhotometricDistort GaussianNoise"
)


@native_class(*spelled(_BOTH, _KEEPING))
class KeepingTransform:
    """Transforms that change pixels, not shapes."""

    arguments: Arguments
    options: Options

    def __call__(self, call: Call, img: Value) -> Value:
        return img.with_shape(img.shape) if isinstance(img, Tensor) else img


@native_class(*spelled(_BOTH, "RandomRotation"))
class RandomRotation:
    """Turned; the size stays unless it may grow."""

    degrees: Value
    interpolation: Value = None
    expand: Value = False
    options: Options

    def __call__(self, call: Call, img: Value) -> Value:
        return img if self.expand is False else with_plane(call, img, unknown(), unknown())


@native_class(*spelled(_BOTH, "Lambda"))
class LambdaTransform:
    """A function of the program."""

    lambd: Value

    def __call__(self, call: Call, img: Value) -> Value:
        return called(call, self.lambd, (img,))


@native_class(*spelled(_BOTH, "ToPILImage"))
class ToImage:
    """An image of PIL, from a tensor with channels first or an array with channels last."""

    mode: Value = None

    def __call__(self, call: Call, pic: Value) -> Value:
        if not isinstance(pic, Tensor) or pic.shape.rank is None:
            return UNKNOWN
        shape = pic.shape
        if pic.framework == "torch" and shape.rank == 3:
            channels, rows, columns = shape.dims
            return image(call, rows, columns, 0 if channels == 1 else channels if isinstance(channels, int) else None)
        return NativeObject(CLASSES["PIL.Image.Image"], call.place, tensor=pic)


@native_class(*spelled(_BOTH, "FiveCrop"))
class FiveCrop:
    """The corners and the middle."""

    size: Value
    options: Options
    count = 5

    def __call__(self, call: Call, img: Value) -> Value:
        return (with_plane(call, img, *_pair(self.size)),) * self.count


@native_class(*spelled(_BOTH, "TenCrop"))
class TenCrop(FiveCrop):
    """The same and their mirror images."""

    count = 10
