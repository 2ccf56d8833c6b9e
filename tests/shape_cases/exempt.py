"""Names that are not compared with their library on random cases, each with the reason."""

from __future__ import annotations

from tensorproof.shapes.families.keras_applications import APPLICATIONS
from tensorproof.shapes.families.keras_companions import CALLBACKS, OPTIMIZERS, SCHEDULES
from tensorproof.shapes.families.training import WITHOUT_SHAPE

#: name: reason
EXEMPT: dict[str, str] = {
    "jax.Array.block_until_ready": "waits for a computation, which the abstract evaluation of the comparison never starts",
    "jax.Array.dtype": "no array, which the abstract evaluation of the comparison needs",
    "jax.Array.item": "needs a value, which the abstract evaluation of the comparison does not have",
    "jax.Array.nonzero": "needs values, which the abstract evaluation of the comparison does not have",
    "jax.Array.tolist": "needs values, which the abstract evaluation of the comparison does not have",
    "jax.numpy.finfo": "returns limits of a number type, no array",
    "jax.numpy.iinfo": "returns limits of a number type, no array",
    "jax.numpy.promote_types": "returns a number type, no array",
    "jax.numpy.result_type": "returns a number type, no array",
    "keras.applications.features": "the inside of the models of this module, which have no such function",
    "keras.backend.image_data_format": "returns a setting, no array",
    "keras.backend.image_dim_ordering": "returns a setting of Keras 1, no array",
    "keras.backend.set_image_data_format": "changes a setting for all that follows",
    "keras.backend.set_image_dim_ordering": "changes a setting of Keras 1",
    "keras.config.image_data_format": "returns a setting, no array",
    "keras.config.set_image_data_format": "changes a setting for all that follows",
    "keras.layers.Layer": "is not called itself",
    "keras.layers.StringLookup": "takes text",
    "keras.losses.Loss": "is not called itself",
    "keras.metrics.Metric": "is not called itself",
    "keras.random.SeedGenerator": "returns no array",
    "numpy.finfo": "returns limits of a number type, no array",
    "numpy.iinfo": "returns limits of a number type, no array",
    "numpy.add.at": "returns nothing",
    "numpy.subtract.at": "returns nothing",
    "numpy.multiply.at": "returns nothing",
    "numpy.maximum.at": "returns nothing",
    "numpy.minimum.at": "returns nothing",
    "numpy.ndarray.fill": "returns nothing",
    "numpy.ndarray.partition": "returns nothing",
    "numpy.ndarray.sort": "returns nothing",
    "numpy.promote_types": "returns a number type, no array",
    "numpy.random.Generator": "takes a bit generator; `default_rng` makes the same object",
    "numpy.random.seed": "returns nothing",
    "numpy.random.shuffle": "returns nothing",
    "numpy.result_type": "returns a number type, no array",
    "torch.Tensor.cuda": "needs a graphics card",
    "torch.Tensor.pin_memory": "needs a graphics card",
    "torch.finfo": "returns limits of a number type, no array",
    "torch.iinfo": "returns limits of a number type, no array",
    "torch.promote_types": "returns a number type, no array",
    "torch.result_type": "returns a number type, no array",
    "torch.compile": "compiles for many seconds; the layer that it returns is the same",
    "torch.nn.Module": "has no call of its own",
    "torch.nn.parallel.DistributedDataParallel": "needs a group of processes",
    "torch.nn.utils.rnn.PackedSequence": "is made by pack_padded_sequence",
    **dict.fromkeys(WITHOUT_SHAPE, "returns nothing that has a shape"),
    "jax.__setitem__": "a statement, which has no value; JAX refuses it altogether",
    "keras.__setitem__": "a statement, which has no value",
    "numpy.__setitem__": "a statement, which has no value: compared in test_shape_stores.py",
    "numpy.put_along_axis": "returns nothing",
    "tf.__setitem__": "a statement, which has no value",
    "torch.__setitem__": "a statement, which has no value: compared in test_shape_stores.py",
}
EXEMPT |= dict.fromkeys((*OPTIMIZERS, *SCHEDULES, *CALLBACKS), "returns no array")
EXEMPT |= dict.fromkeys(APPLICATIONS, "takes seconds to build")
