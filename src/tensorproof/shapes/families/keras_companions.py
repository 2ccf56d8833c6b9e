"""What stands beside the layers of Keras and has no shape of its own: optimisers, metrics, callbacks, initialisers."""

from __future__ import annotations

from tensorproof.shapes import calls
from tensorproof.shapes.rule_table import Call, Sizes, native_class
from tensorproof.shapes.shape import SCALAR, Shape
from tensorproof.shapes.values import UNKNOWN, Instance, NativeObject, Tensor, Value

Arguments = tuple[Value, ...]
Options = dict[str, Value]

_OPTIMIZERS = "Adadelta Adafactor Adagrad Adam AdamW Adamax Ftrl Lamb Lion LossScaleOptimizer Muon Nadam Optimizer RMSprop SGD"
_SCHEDULES = (
    "CosineDecay CosineDecayRestarts ExponentialDecay InverseTimeDecay LearningRateSchedule PiecewiseConstantDecay PolynomialDecay"
)
_CALLBACKS = (
    "BackupAndRestore CSVLogger Callback EarlyStopping History LambdaCallback LearningRateScheduler ModelCheckpoint ProgbarLogger "
    "ReduceLROnPlateau RemoteMonitor SwapEMAWeights TensorBoard TerminateOnNaN"
)
_METRICS = (
    "AUC Accuracy BinaryAccuracy BinaryCrossentropy BinaryIoU CategoricalAccuracy CategoricalCrossentropy CategoricalHinge "
    "CosineSimilarity F1Score FBetaScore FalseNegatives FalsePositives Hinge IoU KLDivergence LogCoshError Mean MeanAbsoluteError "
    "MeanAbsolutePercentageError MeanIoU MeanSquaredError MeanSquaredLogarithmicError Metric OneHotIoU OneHotMeanIoU Poisson "
    "Precision PrecisionAtRecall R2Score Recall RecallAtPrecision RootMeanSquaredError SensitivityAtSpecificity "
    "SparseCategoricalAccuracy SparseCategoricalCrossentropy SparseTopKCategoricalAccuracy SpecificityAtSensitivity SquaredHinge "
    "Sum TopKCategoricalAccuracy TrueNegatives TruePositives"
)
_INITIALIZERS = (
    "Constant GlorotNormal GlorotUniform HeNormal HeUniform Identity LecunNormal LecunUniform Ones Orthogonal RandomNormal "
    "RandomUniform TruncatedNormal VarianceScaling Zeros"
)
OPTIMIZERS = tuple(f"keras.optimizers.{name}" for name in _OPTIMIZERS.split())
SCHEDULES = tuple(f"keras.optimizers.schedules.{name}" for name in _SCHEDULES.split())
CALLBACKS = tuple(f"keras.callbacks.{name}" for name in _CALLBACKS.split())
METRICS = tuple(f"keras.metrics.{name}" for name in _METRICS.split())
INITIALIZERS = tuple(f"keras.initializers.{name}" for name in _INITIALIZERS.split())


@native_class(*OPTIMIZERS)
class Optimizer:
    """Takes gradients; nothing it does has a shape that a program reads."""

    arguments: Arguments
    options: Options

    def apply_gradients(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        return None

    apply = build = minimize = assign = apply_gradients

    def get_config(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        return UNKNOWN

    get_scaled_loss = get_unscaled_gradients = scale_loss = get_config


@native_class(*SCHEDULES)
class Schedule:
    """A learning rate by step."""

    calls = None
    arguments: Arguments
    options: Options

    def __call__(self, call: Call, step: Value) -> Tensor:
        return Tensor(SCALAR, "f32", "keras")


@native_class(*CALLBACKS)
class Callback:
    """`Callback`."""

    arguments: Arguments
    options: Options


class Metric:
    """Counts as training goes on; its result is one number unless an option asks for one per class."""

    arguments: Arguments
    options: Options

    def update_state(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        """What a metric of the program does with its arguments is looked at."""
        return None

    reset_state = reset_states = add_weight = add_variable = update_state

    def result(self, call: Call) -> Value:
        return Tensor(SCALAR, "f32", "keras") if self._is_single(call) else UNKNOWN

    def _is_single(self, call: Call) -> bool:
        return not any(part in call.name for part in ("F1Score", "FBetaScore", "R2Score", "IoU")) and not self.__dict__.get(
            "thresholds"
        )

    def __call__(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        assert isinstance(call.receiver, Instance | NativeObject)
        own = calls.own_method(call.receiver, "update_state")
        if own is not None:
            call.run.call_at(call.place, own, arguments)
            return UNKNOWN
        return self.result(call)


for _name in METRICS:
    native_class(_name)(Metric)


@native_class(*INITIALIZERS)
class Initializer:
    """Called with a shape it makes the first values of a weight."""

    arguments: Arguments
    options: Options

    def __call__(self, call: Call, shape: Sizes, dtype: Value = None, **options: Value) -> Tensor:
        return Tensor(Shape(shape), "f32", "keras")
