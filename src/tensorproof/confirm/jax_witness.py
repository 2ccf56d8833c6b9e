"""A witness of a JAX program: a standalone script that runs the user's function on the failing arrays.

The script needs JAX and NumPy alone. It imports the user's file, as the check did, calls the function compiled, with its gradients
if training was checked, and says which equation of its jaxpr is the first to make something that is not finite. A function that has
no file is exported beside the script.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.confirm.witness import npz_bytes
from tensorproof.files import write_bytes
from tensorproof.frontends.jax_program import differentiated
from tensorproof.frontends.user_program import INPUTS_FUNCTION

if TYPE_CHECKING:
    from tensorproof.findings import Finding
    from tensorproof.frontends.jax_program import JaxProgram

_SCRIPT = '''\
"""{title}

{summary}.

    program   {program_name}
    line      {line}
    node      {node_name}
    operator  {op}
    operand   {operand}

The arrays are in {arrays} (what fails) and {example} (everything else that the function was called with).
This file needs jax and numpy, and the program itself. Run it:

    python {script}
        exit code 1: the failure is there; exit code 0: it is not
"""

import importlib.util
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

HERE = Path(__file__).resolve().parent
#: The user's file, or what jax.export wrote of a function that has none.
PROGRAM = {program!a}
NAME = {name!a}
ARRAYS = {arrays!a}
EXAMPLE = {example!a}
#: The arrays that the function takes, in its order, with their formats; those of gradients by their number.
LEAVES = {leaves!a}
DIFFERENTIATED = {differentiated!a}
#: What the function is called with; None: as its own {inputs_function}() gives it.
CALL = {call!a}
RULE = {rule!a}


def main():
    stored = {{**read(EXAMPLE), **read(ARRAYS)}}
    arrays = [array(stored[name], dtype) for name, dtype in LEAVES]
    path = HERE / PROGRAM
    if path.suffix != ".py":
        results = jax.export.deserialize(bytearray(path.read_bytes())).call(*arrays)
        bad = sum(not is_finite(x) for x in jax.tree_util.tree_leaves(results))
        return finish(bad > 0, "%d results are not finite" % bad)
    flat = called(load(path))
    step = flat if DIFFERENTIATED is None else with_gradients(flat)
    results = jax.tree_util.tree_leaves(jax.jit(step)(*arrays))
    bad = sum(not is_finite(x) for x in results)
    closed = jax.make_jaxpr(step)(*arrays)
    first = first_failure(closed.jaxpr, closed.consts, arrays)
    account = "of %d results %d are not finite; %s" % (len(results), bad, first or "no equation fails")
    return finish(bad > 0 or first is not None, account)


def finish(is_there, account):
    print(("the failure is there: " if is_there else "the failure is NOT there: ") + RULE + ": " + account)
    return 1 if is_there else 0


def load(path):
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    sys.modules["program"] = program
    spec.loader.exec_module(program)
    return program


def called(program):
    """The function on the arrays alone."""
    function = program
    for part in NAME.split("."):
        function = getattr(function, part)

    def flat(*arrays):
        given = iter(arrays)
        if CALL is not None:
            args, kwargs = built(CALL, given)
            return function(*args, **kwargs)
        example = getattr(program, {inputs_function!a})()
        leaves, structure = jax.tree_util.tree_flatten(example)
        example = jax.tree_util.tree_unflatten(structure, [next(given) if hasattr(x, "dtype") else x for x in leaves])
        return function(**example) if isinstance(example, dict) else function(*example)

    return flat


def built(part, given):
    kind, held = part
    if kind == "array":
        return next(given)
    if kind == "dict":
        return {{key: built(item, given) for key, item in held}}
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)([built(item, given) for item in held])
    return held


def with_gradients(flat):
    def step(*arrays):
        def loss(*parts):
            replaced = list(arrays)
            for index, part in zip(DIFFERENTIATED, parts):
                replaced[index] = part
            outputs = flat(*replaced)
            floating = [x for x in jax.tree_util.tree_leaves(outputs) if jnp.issubdtype(jnp.result_type(x), np.floating)]
            return sum(jnp.sum(x).astype(floating[0].dtype) for x in floating), outputs

        parts = [arrays[index] for index in DIFFERENTIATED]
        return jax.value_and_grad(loss, argnums=tuple(range(len(parts))), has_aux=True)(*parts)

    return step


def first_failure(jaxpr, constants, arguments):
    """The first equation that makes something that is not finite of what is finite, with its line."""
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *arguments)))
    for equation in jaxpr.eqns:
        operands = [x.val if hasattr(x, "val") else values[x] for x in equation.invars]
        bound = equation.primitive.get_bind_params(equation.params)
        functions, parameters = bound if isinstance(bound, tuple) else ((), bound)
        results = equation.primitive.bind(*functions, *operands, **parameters)
        results = results if equation.primitive.multiple_results else [results]
        if all(map(is_finite, operands)) and not all(map(is_finite, results)):
            from jax._src import source_info_util

            return "%s made something that is not finite at %s" % (
                equation.primitive.name, source_info_util.summarize(equation.source_info)
            )
        values.update(zip(equation.outvars, results))
    return None


def is_finite(x):
    x = jnp.asarray(x) if not hasattr(x, "dtype") else x
    return not jnp.issubdtype(x.dtype, np.inexact) or bool(jnp.isfinite(x).all())


def read(name):
    """Arrays by name. bfloat16, which numpy does not have, is stored as its bits."""
    with np.load(HERE / name, allow_pickle=False) as archive:
        if "names" not in archive:
            return {{key: archive[key] for key in archive}}
        names = json.loads(bytes(archive["names"]))
        return {{key: archive["array_%d" % i] for i, key in enumerate(names)}}


def array(numbers, dtype):
    if dtype == "key":
        return jax.random.wrap_key_data(jnp.asarray(numbers))
    wanted = jnp.dtype(dtype)
    if wanted.itemsize == 2 and numbers.dtype == np.uint16 and wanted.kind not in "iu":
        numbers = numbers.view(wanted)
    return jnp.asarray(numbers, wanted)


if __name__ == "__main__":
    sys.exit(main())
'''


def script(program: JaxProgram, finding: Finding, names: Sequence[str], arrays: Path) -> str:
    """The text of the script; the arrays that the point leaves out are written beside it, once."""
    example = arrays.with_name(f"{arrays.stem}.example.npz")
    leaves = program.arguments.leaves
    write_bytes(example, npz_bytes({leaf.name: _stored(leaf.value) if leaf.is_key else leaf.numbers() for leaf in leaves}))
    where = finding.location
    variables = program.traced.closed.jaxpr.invars
    file = arrays.with_suffix(".stablehlo") if program.path is None else None
    if file is not None:
        _export(program, file)
    return _SCRIPT.format(
        title=f"{finding.rule.code} {finding.rule.name}: an input that makes a JAX program fail.",
        summary=_plain(finding.rule.summary),
        program_name=_plain(program.model.name),
        line="unknown" if where is None or where.line is None else f"{_plain(str(where.file))}:{where.line}",
        node_name=_plain(finding.node),
        op=_plain(finding.op),
        operand=f"{_plain(finding.operand)}, within [{finding.low:g}, {finding.high:g}] by the analysis",
        arrays=arrays.name,
        example=example.name,
        script=f"test_{arrays.stem}.py",
        program=file.name if file is not None else os.path.relpath(Path(str(program.path)).resolve(), arrays.parent.resolve()),
        name=program.name,
        leaves=[(leaf.name, "key" if leaf.is_key else str(v.aval.dtype)) for leaf, v in zip(leaves, variables, strict=True)],
        differentiated=differentiated(program.arguments) if program.traced.has_gradients else None,
        call=_described(program.arguments.rebuilt([_Array()] * len(leaves))),
        inputs_function=INPUTS_FUNCTION,
        rule=f"{finding.rule.code} {finding.rule.name}",
    )


@dataclass(frozen=True, slots=True)
class _Array:
    """Stands for an array in the arguments of a function."""


class _NoLiteral(Exception):
    """A container that no literal of Python says."""


def _described(item: Any) -> tuple[str, Any] | None:
    """The arguments as a literal of Python; None if they hold containers of another kind."""
    try:
        return _literal(item)
    except _NoLiteral:
        return None


def _literal(item: Any) -> tuple[str, Any]:
    if isinstance(item, _Array):
        return "array", None
    if type(item) is dict:
        # JAX goes through dictionaries by their sorted keys.
        return "dict", [(key, _literal(item[key])) for key in sorted(item)]
    if type(item) in (list, tuple):
        return type(item).__name__, [_literal(part) for part in item]
    if isinstance(item, bool | int | float | str | None):
        return "value", item
    raise _NoLiteral


def _stored(key: Any) -> Any:
    import jax

    return np.asarray(jax.random.key_data(key))


def _export(program: JaxProgram, file: Path) -> None:
    """Write the function, gradients included, in JAX's own format."""
    import jax
    from jax import export

    arrays = [jax.numpy.asarray(leaf.value) if not leaf.is_key else leaf.value for leaf in program.arguments.leaves]
    write_bytes(file, bytes(export.export(jax.jit(program.traced.flat))(*arrays).serialize()))


def _plain(text: str) -> str:
    """Text inside the docstring of the script: nothing in it can end the docstring."""
    return ascii(text)[1:-1].replace('"', '\\"')
