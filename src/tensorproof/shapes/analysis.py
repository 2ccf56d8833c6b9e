"""`analyse_source`: the text of a program in, its problems and hints out."""

from __future__ import annotations

import ast
import re
import sys
from contextlib import suppress

from tensorproof.errors import SourceError
from tensorproof.shapes import calls, statements
from tensorproof.shapes.families import load_rules
from tensorproof.shapes.problems import ShapeOptions, SourceAnalysis
from tensorproof.shapes.run import Exhausted, Profile, Raised, Run
from tensorproof.shapes.values import UNKNOWN, ClassValue, Frame, FunctionValue, LocalModule, Tensor, Value

#: What only programs for TensorFlow 1 say.
_TF1 = re.compile(
    r"\b(?:placeholder|Session|InteractiveSession|contrib|disable_v2_behavior|disable_eager_execution|get_variable)\s*[.(]"
)
_COMPATIBLE = re.compile(r"\bcompat(?:\.| import )v1\b")
_TENSORFLOW = re.compile(r"^\s*(?:import|from)\s+tensorflow\b", re.MULTILINE)
#: Frames of Python that one call of an analysed program takes, at most; the recursion limit follows from it.
_RECURSION_LIMIT = 12_000


def analyse_source(text: str, path: str, options: ShapeOptions | None = None) -> SourceAnalysis:
    """Run a program abstractly, then the models and functions that it defines and never calls."""
    return analyse_with_frame(text, path, options)[0]


def analyse_with_frame(text: str, path: str, options: ShapeOptions | None = None) -> tuple[SourceAnalysis, Frame]:
    """The same, with the names of the module as the program leaves them."""
    options = options or ShapeOptions()
    try:
        tree = ast.parse(text, path)
    except SyntaxError as error:
        raise SourceError(path, f"not valid Python: {error.msg}", error.lineno or 1) from None
    except (RecursionError, MemoryError):
        raise SourceError(path, "not parsed: nested too deeply") from None
    except ValueError as error:
        raise SourceError(path, f"not parsed: {error}") from None
    load_rules()
    run = Run(options, _profile(text))
    run.sources[path] = text.encode(errors="replace")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    module = LocalModule("__main__", path)
    try:
        _run_program(run, tree, module)
    except Exhausted:
        run.statistics.exhausted = f"stopped after {run.statistics.steps} steps"
    except RecursionError:
        run.statistics.exhausted = "stopped at code that is nested too deeply"
    finally:
        sys.setrecursionlimit(limit)
    problems = sorted(
        run.problems, key=lambda problem: (problem.place.file, problem.place.line, problem.place.column, problem.rule.code)
    )
    hints = sorted((hint for hint in run.hints if hint.place.file == path), key=lambda hint: (hint.place.line, hint.place.column))
    return SourceAnalysis(path, tuple(problems), tuple(hints), run.statistics), module.frame


def _profile(text: str) -> Profile:
    if not _TENSORFLOW.search(text) or not _TF1.search(text):
        return "tf2"
    return "compatible" if _COMPATIBLE.search(text) else "tf1"


def _run_program(run: Run, tree: ast.Module, module: LocalModule) -> None:
    module.frame.slots.update({"__name__": "__main__", "__file__": module.file, "__doc__": None})
    run.modules["__main__"] = module
    with run.within(run.options.program_steps), suppress(Raised):
        statements.execute_block(run, module.frame, tree.body)
    _run_unreached(run, module)


def _run_unreached(run: Run, module: LocalModule) -> None:
    """Models whose `forward` was never reached, with their defaults, on an unknown tensor; then other functions."""
    run.graph.forget_variables()
    for cls in list(run.classes):
        method = _entry(cls)
        if method is not None and id(method.node) not in run.reached and method.frame.module is module:
            _try_model(run, module.frame, cls, method)
    for function in list(run.functions):
        if id(function.node) not in run.reached and function.frame.module is module and not isinstance(function.node, ast.Lambda):
            _try_call(run, module.frame, function, _unknown_arguments(function, skip=0, framework=None))


def _entry(cls: ClassValue) -> FunctionValue | None:
    for base in cls.library_bases:
        name = {"torch.nn.Module": "forward", "keras.Model": "call", "keras.layers.Layer": "call"}.get(base)
        method = cls.slots.get(name or "")
        if isinstance(method, FunctionValue):
            return method
    return None


def _try_model(run: Run, frame: Frame, cls: ClassValue, method: FunctionValue) -> None:
    initialiser = cls.slots.get("__init__")
    arguments = _unknown_arguments(initialiser, skip=1, framework=None) if isinstance(initialiser, FunctionValue) else []
    instance: Value = None
    with run.within(run.options.function_steps), suppress(Raised):
        instance = calls.instantiate(run, frame, cls.node, cls, arguments, {calls.ANY_FURTHER: UNKNOWN})
    if instance is None:
        return
    framework = "torch" if "torch.nn.Module" in cls.library_bases else "keras"
    _try_call(run, frame, method, [instance, *_unknown_arguments(method, skip=1, framework=framework)])


def _try_call(run: Run, frame: Frame, function: FunctionValue, arguments: list[Value]) -> None:
    with run.within(run.options.function_steps), suppress(Raised):
        calls.call_function(run, frame, _statement(function), function, arguments, {calls.ANY_FURTHER: UNKNOWN})


def _statement(function: FunctionValue) -> ast.stmt:
    assert not isinstance(function.node, ast.Lambda)
    return function.node


def _unknown_arguments(function: FunctionValue, skip: int, framework: str | None) -> list[Value]:
    """Unknown values for the parameters without a default; of a `forward` the first one is a tensor."""
    spec = function.node.args
    required = len(spec.posonlyargs) + len(spec.args) - len(function.defaults) - skip
    values: list[Value] = [UNKNOWN] * max(required, 0)
    if framework is not None and values:
        values[0] = Tensor(framework="torch" if framework == "torch" else "keras", contiguous=None)
    return values
