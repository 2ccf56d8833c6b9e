"""Functions of JAX as the user names them: `module.py:name`, or a function of a running program.

The function is traced by `jax.make_jaxpr` with its example arguments (`tensorproof.frontends.jax_arguments`), which give all sizes.
In training the graph is that of `value_and_grad`: of the output, or of the sum of all floating outputs where that is
not one number; by the weights, or by the floating inputs of a function that has none. A function that differentiates itself is
taken as it is.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.assumptions import Domain
from tensorproof.errors import AssumptionError, ConfigurationError, ModelError
from tensorproof.formats import UINT32
from tensorproof.frontends.conversion import change_of
from tensorproof.frontends.framework_model import FrameworkModel, FrameworkRunner, ReadingOptions
from tensorproof.frontends.input_declarations import InputDeclaration, about
from tensorproof.frontends.jax_arguments import Arguments, Leaf, arguments_of
from tensorproof.frontends.jax_jaxpr import JaxArgument, JaxGraph, translated
from tensorproof.frontends.jax_lines import is_differentiated
from tensorproof.frontends.user_frames import described_failure
from tensorproof.frontends.user_program import speaking_aside
from tensorproof.graph import Model

if TYPE_CHECKING:
    from tensorproof.findings import Finding


@dataclass(frozen=True, slots=True)
class JaxTrace:
    """What was traced: the jaxpr, and a function on the arrays alone that gives what the jaxpr gives."""

    closed: Any
    flat: Callable[..., Any]
    graph: JaxGraph
    #: Whether gradients were asked for here, as opposed to a function that has its own, or none.
    has_gradients: bool


class JaxProgram(FrameworkModel):
    """A traced function, with what runs it."""

    framework = "JAX"
    target = "jax-cpu"
    # XLA's simplifications: (1 - x) + 1e-8 is computed as (1 + 1e-8) - x.
    reassociates = True

    def __init__(
        self, function: Any, name: str, path: str | None, arguments: Arguments, traced: JaxTrace, domains: Mapping[str, Domain]
    ) -> None:
        self.function = function
        self.name = name
        self.path = path
        self.arguments = arguments
        self.traced = traced
        self.model: Model = traced.graph.model
        self.domains = domains
        self.trainable = traced.graph.trainable
        self.notes = ()

    @contextmanager
    def runner(self, *, time_limit: float | None = None) -> Generator[FrameworkRunner]:
        """Runs in this process: the user named the function."""
        from tensorproof.execute.jax_program import JaxRunner

        yield JaxRunner(self.traced, self.arguments)

    def script(self, finding: Finding, names: Sequence[str], arrays: Path) -> str:
        """A program that needs JAX and NumPy, and the user's file."""
        from tensorproof.confirm.jax_witness import script

        return script(self, finding, names, arrays)


def read_jax(
    found: Any, name: str, path: str | Path | None, options: ReadingOptions, declared: Sequence[InputDeclaration] = ()
) -> JaxProgram:
    """Trace and translate a function."""
    if importlib.util.find_spec("jax") is None:
        raise ConfigurationError("JAX programs need the extra `jax`: pip install tensorproof[jax]")
    if not callable(found):
        raise ModelError(f"{name}: is {type(found).__name__}, not a function")
    if options.state is not None:
        raise ConfigurationError(f"{name}: a function of JAX has its weights among its arguments; give them as example inputs")
    by_input = about(name, [*declared, *options.inputs])
    arguments = arguments_of(found, name, options.example, by_input, options.dims)
    _refuse_unknown(name, by_input, declared, options, arguments)
    original = arguments
    if options.precision is not None:
        arguments = arguments.converted(options.precision)
    label = name if path is None else f"{path}:{name}"
    traced = _traced(found, label, None if path is None else str(path), arguments, options.training)
    if options.precision is not None:
        _note_conversions(traced.graph.model, original)
    return JaxProgram(found, name, None if path is None else str(path), arguments, traced, _domains(traced, arguments, by_input))


def _refuse_unknown(
    name: str,
    by_input: Mapping[str, InputDeclaration],
    declared: Sequence[InputDeclaration],
    options: ReadingOptions,
    arguments: Arguments,
) -> None:
    """A declaration that names this function, or comes from outside the file, speaks of one of its inputs."""
    names = [leaf.name for leaf in arguments.leaves]
    known = {leaf.partition("[")[0].partition(".")[0] for leaf in names}
    for declaration in (*declared, *options.inputs):
        is_meant = declaration.owner == name or declaration in options.inputs
        if is_meant and declaration.name in by_input and declaration.name not in known:
            raise AssumptionError(f"{name}: no input is named {declaration.name!r}; inputs are {', '.join(names)}")


# -- tracing ----------------------------------------------------------------------------------------------------------


def _traced(function: Any, label: str, path: str | None, arguments: Arguments, training: bool) -> JaxTrace:
    import jax

    def flat(*arrays: Any) -> Any:
        args, kwargs = arguments.rebuilt(arrays)
        return function(*args, **kwargs)

    example = [leaf.value for leaf in arguments.leaves]
    chosen, has_gradients = flat, False
    try:
        with speaking_aside(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            closed = jax.make_jaxpr(flat)(*example)
            if training and not is_differentiated(closed.jaxpr):
                chosen, has_gradients = _with_gradients(flat, arguments), True
                closed = jax.make_jaxpr(chosen)(*example)
    except Exception as error:
        raise ModelError(described_failure(label, "JAX cannot trace it", error)) from None
    named = [
        JaxArgument(leaf.name, leaf.numbers().astype(variable.aval.dtype) if leaf.is_weight and not leaf.is_key else None)
        for leaf, variable in zip(arguments.leaves, closed.jaxpr.invars, strict=True)
    ]
    return JaxTrace(closed, chosen, translated(closed, named, name=label, path=path), has_gradients)


def _with_gradients(flat: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
    """The function with the gradients of its output beside its outputs."""
    import jax

    chosen = differentiated(arguments)

    def step(*arrays: Any) -> Any:
        def loss(*parts: Any) -> tuple[Any, Any]:
            replaced = list(arrays)
            for index, part in zip(chosen, parts, strict=True):
                replaced[index] = part
            outputs = flat(*replaced)
            return total(outputs), outputs

        parts = [jax.numpy.asarray(arrays[index]) for index in chosen]
        (_, outputs), gradients = jax.value_and_grad(loss, argnums=tuple(range(len(parts))), has_aux=True)(*parts)
        return outputs, gradients

    return step


def differentiated(arguments: Arguments) -> list[int]:
    """The numbers of the arrays that gradients are wanted of: weights, or the floating inputs where there are none."""
    weights = [index for index, leaf in enumerate(arguments.leaves) if leaf.is_weight and leaf.is_floating]
    found = weights or [index for index, leaf in enumerate(arguments.leaves) if leaf.is_floating]
    if not found:
        raise ModelError("nothing to differentiate by: no weight and no input is floating")
    return found


def total(outputs: Any) -> Any:
    """The loss: the only floating output if it is a number, else the sum of all of them."""
    import jax

    leaves: list[Any] = jax.tree_util.tree_leaves(outputs)
    floating = [leaf for leaf in leaves if jax.numpy.issubdtype(jax.numpy.result_type(leaf), np.floating)]
    if not floating:
        raise ModelError("nothing to differentiate: no output is floating")
    if len(floating) == 1 and jax.numpy.ndim(floating[0]) == 0:
        return floating[0]
    return sum(jax.numpy.sum(leaf).astype(floating[0].dtype) for leaf in floating)


# -- what is known of inputs and weights ------------------------------------------------------------------------------


def _note_conversions(model: Model, original: Arguments) -> None:
    """Remember which weights became infinite or zero in the format that they were converted to."""
    before = {leaf.name: leaf for leaf in original.leaves if leaf.is_weight and leaf.is_floating}
    for number, array in model.constants.items():
        leaf = before.get(model.name_of(number))
        change = None if leaf is None else change_of(leaf.numbers(), array)
        if change is not None:
            model.conversions[number] = change


def _domains(traced: JaxTrace, arguments: Arguments, declared: Mapping[str, InputDeclaration]) -> dict[str, Domain]:
    """Ranges of inputs: as declared; integers that are only known by an example lie where its numbers lie; keys are anything."""
    found: dict[str, Domain] = {}
    model = traced.graph.model
    leaves = {leaf.name: leaf for leaf in arguments.leaves}
    for number in model.graph.inputs:
        value = model.values[number]
        leaf = leaves[value.name]
        declaration = declared.get(value.name)
        if declaration is not None and declaration.domain is not None:
            found[value.name] = declaration.domain
        elif leaf.is_key or (value.format is UINT32 and value.shape is not None and value.shape[-1:] == (2,)):
            # Words of a key, as `jax.random.PRNGKey` gives them.
            found[value.name] = Domain("box", UINT32.low, UINT32.high, source="any key")
        elif value.format is not None and value.format.kind == "int":
            found.update(_where_example_lies(leaf))
    return found


def _where_example_lies(leaf: Leaf) -> dict[str, Domain]:
    numbers = leaf.numbers()
    return {leaf.name: Domain("box", float(numbers.min()), float(numbers.max()), source="example")} if numbers.size else {}
