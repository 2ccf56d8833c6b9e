"""Names that are not compared with their library on random cases, each with the reason."""

from __future__ import annotations

from tensorproof.shapes.families import load_rules
from tensorproof.shapes.families.keras_applications import APPLICATIONS
from tensorproof.shapes.families.keras_companions import CALLBACKS, OPTIMIZERS, SCHEDULES
from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.families.training import WITHOUT_SHAPE
from tensorproof.shapes.rule_table import CLASSES, RULES

load_rules()

#: Contracts of libraries that are not installed where the comparison runs.
NOT_INSTALLED = tuple(
    name
    for name in (*RULES, *CLASSES)
    if name.partition(".")[0] in ("torchvision", "sklearn", "PIL", "input_data", "easydict", "configargparse")
    or name.startswith(("tf.examples", "tf.contrib.learn"))
)
OLD_NAMES = (
    *spelled("jax", "tree_map tree_leaves tree_flatten tree_unflatten"), "jax.ad_checkpoint.checkpoint", "jax.tree_util.tree_multimap", "keras.backend.dot",
    *spelled("tf", "matrix_inverse cholesky matrix_determinant self_adjoint_eig svd qr matrix_solve matrix_triangular_solve"),
    "torch.nn.utils.stateless.functional_call", *spelled("tf.data", "make_one_shot_iterator make_initializable_iterator Iterator"),
)  # fmt: skip
RANDOM_NUMBERS = spelled(
    "random", "random uniform gauss normalvariate betavariate expovariate triangular getrandbits randint randrange"
)
NOT_FOLLOWED = (
    *spelled("itertools", "cycle accumulate count takewhile dropwhile starmap groupby"), *spelled("collections", "defaultdict Counter"),
    "tf.data.Dataset.from_generator",
)  # fmt: skip
NO_ARRAY = (
    "dataclasses.field", "dataclasses.replace", "dataclasses.asdict", "sys.exit", "os._exit", "os.abort", "random.seed", "random.shuffle",
    "jax.lax.conv_dimension_numbers", "tf.data.Dataset", *spelled("tensorproof", "named_tuple_class vector_jacobian_product"),
    *spelled("torch.utils.data", "Dataset IterableDataset dataset.Dataset ChainDataset"), *spelled("tqdm", "notebook.tqdm notebook.trange"),
)  # fmt: skip
FROM_FILES = (
    *(f"keras.datasets.{name}.load_data" for name in ["mnist", "fashion_mnist", "cifar10", "cifar100", "boston_housing", "imdb", "reuters"]),
    *spelled("tf.data", "TFRecordDataset TextLineDataset Dataset.list_files"),
    *spelled("keras.utils keras.preprocessing", "image_dataset_from_directory"),
)  # fmt: skip

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
    "keras.layers.TextVectorization": "takes text",
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
    **dict.fromkeys(NOT_INSTALLED, "its library is not installed here: compared with its documentation in test_shape_data.py"),
    **dict.fromkeys(OLD_NAMES, "a name of an older version: the function is compared under its new one"),
    **dict.fromkeys(RANDOM_NUMBERS, "returns a number that nobody can foresee"),
    **dict.fromkeys(NOT_FOLLOWED, "its items are not followed: the analysis knows no more than that they exist"),
    **dict.fromkeys(NO_ARRAY, "returns no array, and nothing that an array could be made with in one expression"),
    "jax.pmap": "needs as many devices as rows; jax.vmap has the same shapes",
    "tqdm.rich.tqdm": "needs a library that is not installed here",
    **dict.fromkeys(FROM_FILES, "reads files, or downloads them"),
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

# -- TensorFlow ---------------------------------------------------------------------------------------------------------

_FLAGS = tuple(
    f"{place}.DEFINE_{kind}"
    for place in ("absl.flags", "tf.app.flags", "tf.flags")
    for kind in ("bool", "boolean", "enum", "float", "integer", "list", "multi_integer", "string")
)
_SETTINGS = [
    "tf.ConfigProto",
    "tf.GPUOptions",
    "tf.RunMetadata",
    "tf.RunOptions",
    "tf.add_to_collection",
    "tf.assert_equal",
    "tf.config.run_functions_eagerly",
    "tf.debugging.assert_equal",
    "tf.debugging.assert_shapes",
    "tf.disable_eager_execution",
    "tf.disable_resource_variables",
    "tf.disable_v2_behavior",
    "tf.enable_eager_execution",
    "tf.enable_v2_behavior",
    "tf.get_default_graph",
    "tf.get_default_session",
    "tf.get_logger",
    "tf.logging.info",
    "tf.logging.set_verbosity",
    "tf.logging.warn",
    "tf.print",
    "tf.random.set_random_seed",
    "tf.random.set_seed",
    "tf.reset_default_graph",
    "tf.set_random_seed",
    "tf.Tensor.device",
    "tf.Tensor.graph",
    "tf.Tensor.name",
    "tf.Tensor.op",
    "absl.app.run",
    "tf.app.run",
    "tf.RaggedTensorSpec",
    "tf.SparseTensorSpec",
    "tf.TensorSpec",
    "tf.colocate_with",
    "tf.control_dependencies",
    "tf.device",
    "tf.init_scope",
    "tf.name_scope",
    "tf.op_scope",
    "tf.variable_op_scope",
    "tf.get_variable_scope",
    "tf.contrib.layers.l1_regularizer",
    "tf.contrib.layers.l2_regularizer",
    "tf.Module",
    "tf.train.Checkpoint",
    "tf.train.CheckpointManager",
    "tf.train.Coordinator",
    "tf.train.ExponentialMovingAverage",
    "tf.train.Saver",
    "tf.train.cosine_decay",
    "tf.train.exponential_decay",
    "tf.train.get_checkpoint_state",
    "tf.train.get_or_create_global_step",
    "tf.train.latest_checkpoint",
    "tf.train.piecewise_constant",
    "tf.train.polynomial_decay",
    "tf.train.start_queue_runners",
    "tf.summary.FileWriter",
    "tf.summary.audio",
    "tf.summary.create_file_writer",
    "tf.summary.histogram",
    "tf.summary.image",
    "tf.summary.merge",
    "tf.summary.merge_all",
    "tf.summary.scalar",
    "tf.summary.text",
]
_OPERATIONS = [
    "tf.Operation",
    "tf.group",
    "tf.no_op",
    "tf.global_variables_initializer",
    "tf.initialize_all_variables",
    "tf.initialize_variables",
    "tf.local_variables_initializer",
    "tf.tables_initializer",
    "tf.variables_initializer",
    "tf.Tensor.initializer",
    "tf.Tensor.load",
    "tf.train.AdadeltaOptimizer",
    "tf.train.AdagradOptimizer",
    "tf.train.AdamOptimizer",
    "tf.train.FtrlOptimizer",
    "tf.train.GradientDescentOptimizer",
    "tf.train.MomentumOptimizer",
    "tf.train.ProximalAdagradOptimizer",
    "tf.train.ProximalGradientDescentOptimizer",
    "tf.train.RMSPropOptimizer",
]
_LISTS = ["tf.all_variables", "tf.get_collection", "tf.global_variables", "tf.model_variables", "tf.trainable_variables"]
_GONE = (
    *(f"tf.contrib.{place}.{name}" for place in ("layers", "slim") for name in (
        "avg_pool2d", "batch_norm", "conv2d", "convolution2d", "dropout", "flatten", "fully_connected", "layer_norm", "linear",
        "max_pool2d")),
    *(f"tf.layers.{name}" for name in (
        "average_pooling1d", "average_pooling2d", "average_pooling3d", "batch_normalization", "conv1d", "conv2d", "conv2d_transpose",
        "conv3d", "dense", "dropout", "flatten", "max_pooling1d", "max_pooling2d", "max_pooling3d", "separable_conv2d")),
    *(f"tf.{place}.{name}" for place in ("nn.rnn_cell", "contrib.rnn") for name in (
        "BasicLSTMCell", "BasicRNNCell", "DeviceWrapper", "DropoutWrapper", "GRUBlockCell", "GRUCell", "LSTMBlockCell", "LSTMCell",
        "LSTMStateTuple", "LayerNormBasicLSTMCell", "MultiRNNCell", "RNNCell")),
    "tf.contrib.rnn.static_rnn", "tf.nn.bidirectional_dynamic_rnn", "tf.nn.dynamic_rnn", "tf.nn.rnn", "tf.nn.static_rnn",
    "tf.contrib.layers.variance_scaling_initializer", "tf.contrib.layers.xavier_initializer",
    "tf.contrib.layers.xavier_initializer_conv2d", "tf.Tensor.initialized_value", "tf.py_func", "tf.make_template",
    "tf.losses.get_regularization_loss", "tf.losses.get_total_loss", "tf.InteractiveSession", "tf.train.MonitoredSession",
    "tf.train.MonitoredTrainingSession", "tf.train.SingularMonitoredSession",
    *(f"tf.metrics.{name}" for name in ("accuracy", "auc", "mean", "precision", "recall")),
)  # fmt: skip
_FILES = [
    "tf.io.read_file",
    "tf.read_file",
    "tf.strings.as_string",
    "tf.strings.join",
    "tf.as_string",
    "tf.image.decode_bmp",
    "tf.image.decode_image",
    "tf.image.decode_jpeg",
    "tf.image.decode_png",
    "tf.io.decode_bmp",
    "tf.io.decode_image",
    "tf.io.decode_jpeg",
    "tf.io.decode_png",
]
_FUNCTIONS = [
    "tf.autograph.experimental.do_not_convert",
    "tf.recompute_grad",
    "tf.numpy_function",
    "tf.py_function",
]
EXEMPT |= dict.fromkeys(_FLAGS, "declares an option of the command line")
EXEMPT |= dict.fromkeys(_SETTINGS, "returns no array")
EXEMPT |= dict.fromkeys(_OPERATIONS, "an operation, which has no shape; programs that run them are among the fixtures")
EXEMPT |= dict.fromkeys(_LISTS, "lists the variables of a whole program; such programs are among the fixtures")
EXEMPT |= dict.fromkeys(_GONE, "not in TensorFlow 2 any more, or only with the old Keras")
EXEMPT |= dict.fromkeys(_FILES, "needs a file")
EXEMPT |= dict.fromkeys(_FUNCTIONS, "takes a function of Python, whose result the graph does not know")
