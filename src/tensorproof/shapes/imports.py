"""Imports: modules of the user's project are run; libraries are known by their canonical names."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from tensorproof.shapes.run import Raised, Run
from tensorproof.shapes.values import UNKNOWN, Frame, Library, LocalModule, Value

#: Names of one and the same thing, longest first; the right side is how rules call it.
_ALIASES = (
    (r"tensorflow\.compat\.v[12]\.keras\b", "keras"),
    (r"tensorflow\.compat\.v[12]\b", "tf"),
    (r"tensorflow\.(?:python\.)?keras\b", "keras"),
    (r"tf\.(?:compat\.v[12]\.)?keras\b", "keras"),
    (r"tf\.compat\.v[12]\b", "tf"),
    (r"tensorflow\b", "tf"),
    (r"tf_keras\b", "keras"),
    (r"keras\.models\.(?=(?:Model|Sequential)\b)", "keras."),
    (r"keras\.layers\.Input\b", "keras.Input"),
    (r"keras\.Layer\b", "keras.layers.Layer"),
    (r"keras\.layers\.experimental\.preprocessing\.", "keras.layers."),
    (
        r"keras\.layers\.(?:core|convolutional|pooling|recurrent|embeddings|normalization|merge|wrappers|noise)\.(?=\w)",
        "keras.layers.",
    ),
    (r"keras\.utils\.np_utils\b", "keras.utils"),
    (r"keras\.applications\.[a-z]\w+\.", "keras.applications."),
    (r"jax\._src\.numpy\b", "jax.numpy"),
    (r"torch\.functional\b", "torch"),
    (r"torch\.nn\.modules(?:\.\w+)?\.(?=[A-Z])", "torch.nn."),
)
_PATTERNS = [(re.compile(pattern), name) for pattern, name in _ALIASES]
#: Local modules that are followed; a project can be large.
MOST_MODULES = 30
#: A longer file is data, or generated.
LONGEST_MODULE = 400_000


def canonical(path: str) -> str:
    """The name by which the table of rules knows something: `tensorflow.compat.v1.matmul` is `tf.matmul`."""
    for pattern, name in _PATTERNS:
        found = pattern.match(path)
        if found is not None:
            return name + path[found.end() :]
    return path


def import_module(run: Run, frame: Frame, name: str, level: int = 0) -> Value:
    """What `import name` binds."""
    local = _local(run, frame, name, level)
    return Library(canonical(name)) if local is None else local


def import_from(run: Run, frame: Frame, node: ast.ImportFrom) -> None:
    """`from module import names`."""
    from tensorproof.shapes.attributes import library_member
    from tensorproof.shapes.expressions import bind_name

    module = _local(run, frame, node.module or "", node.level)
    for alias in node.names:
        if alias.name == "*":
            if module is not None:
                for name, value in list(module.frame.slots.items()):
                    if not name.startswith("_"):
                        bind_name(run, frame, name, value)
            elif not node.level:
                for name in _members(canonical(node.module or "")):
                    bind_name(run, frame, name, library_member(canonical(node.module or ""), name))
            continue
        if module is not None and alias.name in module.frame.slots:
            value: Value = module.frame.slots[alias.name]
        else:
            below = _local(run, frame, f"{node.module or ''}.{alias.name}".strip("."), node.level)
            if below is not None:
                value = below
            elif module is not None or node.level:
                value = UNKNOWN
            else:
                value = library_member(canonical(node.module or ""), alias.name)
        bind_name(run, frame, alias.asname or alias.name, value)


def _members(path: str) -> list[str]:
    """The public names of a library that rules know: what `import *` binds, as far as it matters."""
    from tensorproof.shapes.rule_table import CLASSES, CONSTANTS, RULES

    prefix = f"{path}."
    found = (name.removeprefix(prefix) for table in (RULES, CLASSES, CONSTANTS) for name in table if name.startswith(prefix))
    return [name for name in found if "." not in name and not name.startswith("_")]


def member(run: Run, module: LocalModule, name: str) -> Value:
    """A name of a local module, or a module below it that was imported."""
    if name in module.frame.slots:
        return module.frame.slots[name]
    below = run.modules.get(f"{module.name}.{name}")
    return UNKNOWN if below is None else below


def _local(run: Run, frame: Frame, name: str, level: int) -> LocalModule | None:
    """The module of the user's project with that name, run once; None if it is a library."""
    project = run.options.project
    here = Path(frame.module.file).parent
    roots = [here] if project is None else [here, project]
    if level:
        base = here
        for _ in range(level - 1):
            base = base.parent
        roots = [base]
    parts = [part for part in name.split(".") if part]
    for root in roots:
        place = root.joinpath(*parts)
        for file in ([place.with_suffix(".py")] if parts else []) + [place / "__init__.py"]:
            key = str(file)
            if key in run.modules:
                return run.modules[key]
            if parts and len(run.modules) < MOST_MODULES and file.is_file() and file.stat().st_size <= LONGEST_MODULE:
                return _load(run, name, file, key)
    return None


def _load(run: Run, name: str, file: Path, key: str) -> LocalModule | None:
    from tensorproof.shapes.statements import execute_block

    run.modules[key] = None
    try:
        source = file.read_bytes()
        tree = _parsed(source, str(file))
    except (SyntaxError, ValueError, OSError, RecursionError):
        return None
    run.sources[str(file)] = source
    module = LocalModule(name, str(file))
    module.frame.slots["__name__"] = name
    run.modules[key] = module
    run.modules[name] = module
    with run.within(run.options.module_steps), suppress(Raised):
        execute_block(run, module.frame, tree.body)
    return module


@lru_cache(maxsize=128)
def _parsed(source: bytes, file: str) -> ast.Module:
    """The tree of a module: several programs of one project import the same ones, and an editor asks again and again."""
    return ast.parse(source, file)
