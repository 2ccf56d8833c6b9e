"""What surrounds models in PyTorch: optimisers, gradients, devices, files. Most of it has no shape."""

from __future__ import annotations

from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.rule_table import Call, Mismatch, native_class, shape_rule
from tensorproof.shapes.shape import SCALAR
from tensorproof.shapes.sizes import same
from tensorproof.shapes.values import UNKNOWN, ListValue, Tensor, Value

Arguments = tuple[Value, ...]
Options = dict[str, Value]

_OPTIMISERS = "Adadelta Adafactor Adagrad Adam AdamW Adamax ASGD LBFGS NAdam RAdam RMSprop Rprop SGD SparseAdam"
_SCHEDULERS = (
    "LambdaLR MultiplicativeLR StepLR MultiStepLR ConstantLR LinearLR ExponentialLR PolynomialLR CosineAnnealingLR "
    "ChainedScheduler SequentialLR ReduceLROnPlateau CyclicLR OneCycleLR CosineAnnealingWarmRestarts"
)
_SETTINGS = (
    "manual_seed seed no_grad enable_grad inference_mode set_grad_enabled autocast device save load set_default_dtype "
    "set_default_device set_printoptions use_deterministic_algorithms set_float32_matmul_precision set_num_threads get_num_threads "
    "get_rng_state set_rng_state is_grad_enabled Generator"
)
_CUDA = "is_available device_count manual_seed manual_seed_all empty_cache synchronize set_device current_device get_device_name"


#: Objects and settings that no shape depends on.
WITHOUT_SHAPE = (
    *spelled("torch.optim", _OPTIMISERS),
    *spelled("torch.optim.lr_scheduler", _SCHEDULERS),
    *spelled("torch", _SETTINGS),
    *spelled("torch.cuda", _CUDA),
    *spelled("torch.cuda.amp torch.amp", "autocast"),
    *spelled("torch.backends.mps", "is_available is_built"),
    *spelled("torch.autograd", "set_detect_anomaly detect_anomaly backward"),
    *spelled("torch.nn.utils", "clip_grad_value_ parameters_to_vector"),
    "torch.utils.tensorboard.SummaryWriter",
    "torch.get_default_dtype",
    "torch.nn.init.calculate_gain",
)


@shape_rule(*WITHOUT_SHAPE)
def without_shape(*arguments: Value, **options: Value) -> Value:
    """Its value is of no interest."""
    return UNKNOWN


@shape_rule("torch.Tensor.backward")
def backward(
    call: Call,
    input: Tensor,
    gradient: Value = None,
    retain_graph: Value = None,
    create_graph: Value = False,
    inputs: Value = None,
) -> Value:
    """`loss.backward()` starts from one number, unless its gradient is given."""
    elements = input.shape.elements
    if gradient is None and elements is not None and same(elements, 1) is False:
        message = f"backward() starts from a single number, but the tensor is {input.shape}: reduce it with mean() or sum()"
        raise Mismatch(WRONG_RANK, message, result=None, tensors=(input,))
    return None


@native_class("torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.GradScaler")
class GradScaler:
    """What scales a loss before `backward()`, so that small gradients survive half precision."""

    arguments: Arguments
    options: Options

    def scale(self, call: Call, outputs: Value) -> Value:
        return outputs.with_shape(outputs.shape) if isinstance(outputs, Tensor) else outputs

    def step(self, call: Call, *arguments: Value, **options: Value) -> Value:
        return UNKNOWN

    update = unscale_ = get_scale = is_enabled = state_dict = load_state_dict = step


@shape_rule("torch.autograd.grad")
def gradients(
    outputs: Value,
    inputs: Value,
    grad_outputs: Value = None,
    retain_graph: Value = None,
    create_graph: Value = False,
    allow_unused: Value = None,
    is_grads_batched: Value = False,
    materialize_grads: Value = False,
) -> Value:
    """A gradient has the shape of what it is taken by."""
    if isinstance(inputs, Tensor):
        return (inputs.with_shape(inputs.shape),)
    items = inputs.items if isinstance(inputs, ListValue) else inputs
    if not isinstance(items, tuple):
        return UNKNOWN
    return tuple(item.with_shape(item.shape) if isinstance(item, Tensor) else UNKNOWN for item in items)


@shape_rule("torch.nn.utils.clip_grad_norm_")
def total_norm(*arguments: Value, **options: Value) -> Tensor:
    """The norm of all gradients."""
    return Tensor(SCALAR, "f32", "torch")


#: Functions of `torch.nn.init` that fill a tensor.
IN_PLACE = (
    "uniform_ normal_ constant_ ones_ zeros_ eye_ dirac_ xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_ "
    "trunc_normal_ orthogonal_ sparse_ "
    "xavier_uniform xavier_normal kaiming_uniform kaiming_normal uniform normal constant orthogonal"
)


@shape_rule(*spelled("torch.nn.init", IN_PLACE))
def initialised(tensor: Tensor, *arguments: Value, **options: Value) -> Tensor:
    """Weights filled in place."""
    return tensor


@shape_rule(
    *spelled("torch.nn.utils", "weight_norm spectral_norm remove_weight_norm remove_spectral_norm"),
    *spelled("torch.nn.utils.parametrizations", "weight_norm spectral_norm orthogonal"),
    *spelled("torch", "compile"),
    *spelled("torch.jit", "script"),
    *spelled("torch.nn", "DataParallel"),
    "torch.nn.parallel.DistributedDataParallel",
)
def same_module(module: Value = UNKNOWN, *arguments: Value, **options: Value) -> Value:
    """A layer with other bookkeeping."""
    return module
