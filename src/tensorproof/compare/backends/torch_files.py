"""Programs of PyTorch as they are compared: outputs from the user's own module, inner values from the program that it exports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.compare.backends.backend import ModelFacts, Unavailable
from tensorproof.compare.drawing import Array, Arrays
from tensorproof.compare.workers.backend_id import BackendId

if TYPE_CHECKING:
    from torch import Tensor, fx

    from tensorproof.execute.torch_program import ProgramRunner
    from tensorproof.frontends.torch_program import TorchProgram

#: Random operators of a program start from this seed in every run.
_SEED = 0

_open: dict[str, _Program] = {}


def open_model(backend_id: BackendId, path: str, options: Mapping[str, Any]) -> ModelFacts:
    """Import and trace `module.py:name`.

    `options` may ask for another `precision`, and under which `key` the program stays open; `inputs` are declarations by name,
    `dims` sizes of named dimensions, `state` a file of trained weights.
    """
    try:
        import torch
    except ImportError as error:
        raise Unavailable(f"{backend_id}: {error}") from None
    from tensorproof.execute.torch_program import ProgramRunner
    from tensorproof.frontends.input_declarations import parse_declaration
    from tensorproof.frontends.torch_program import ProgramOptions, read_program

    torch.set_num_threads(int(backend_id.toggle("threads", "1")))
    declared = [
        parse_declaration(f"{name} {text}" if text.startswith("in ") else f"{name} = {text}", f"input {name}")
        for name, text in options.get("inputs", {}).items()
    ]
    sizes = {name: (int(size[0]), int(size[1])) for name, size in options.get("dims", {}).items()}
    read = read_program(
        path, ProgramOptions(inputs=declared, dims=sizes, state=options.get("state"), precision=options.get("precision"))
    )
    program = _Program(read, ProgramRunner(read.traced), backend_id.toggle("compile") == "on")
    _open[str(options.get("key", path))] = program
    return program.facts()


def run_model(backend_id: BackendId, path: str, feeds: Arrays, keep: Sequence[str]) -> dict[str, Array]:
    """Values of an open program. Outputs are those of the user's own module, unless inner values are given."""
    return _open[path].run(feeds, keep)


@dataclass
class _Program:
    """A traced program. Values have the names of the nodes that make them."""

    program: TorchProgram
    runner: ProgramRunner
    is_compiled: bool
    compiled: Any = None

    @property
    def nodes(self) -> list[fx.Node]:
        return list(self.program.traced.program.graph.nodes)

    @property
    def inputs(self) -> list[str]:
        return [name for name in self.program.traced.program.graph_signature.user_inputs if isinstance(name, str)]

    @property
    def outputs(self) -> list[str]:
        return [name for name in self.program.traced.program.graph_signature.user_outputs if isinstance(name, str)]

    def facts(self) -> ModelFacts:
        traced = self.program.traced
        lines: dict[str, dict[str, Any]] = {}
        for node in traced.model.graph.nodes:
            place: dict[str, Any] = {"module": node.module}
            if node.source is not None:
                place |= {"file": node.source.file, "line": node.source.line}
            lines.setdefault(traced.origins.get(node.name, node.name), place)
        moving = set(self.inputs)
        values: list[str] = []
        operators: dict[str, str] = {}
        reads: dict[str, tuple[str, ...]] = {}
        places: dict[str, dict[str, Any]] = {}
        for node in self.nodes:
            operands = tuple(entry.name for entry in node.all_input_nodes if entry.name in moving)
            if node.op != "call_function" or not operands:
                continue
            moving.add(node.name)
            values.append(node.name)
            operators[node.name] = str(node.target)
            reads[node.name] = operands
            places[node.name] = {"node": node.name, "origin": node.name, **lines.get(node.name, {})}
        listed: list[tuple[str, str, tuple[int | None, ...]]] = []
        computed: set[str] = set()
        for node in self.nodes:
            value = node.meta.get("val")
            dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
            computed.add(dtype)
            if node.name in self.inputs and value is not None and hasattr(value, "shape"):
                listed.append((node.name, dtype, tuple(size if isinstance(size, int) else None for size in value.shape)))
        precision = next((name for name in ("bfloat16", "float16", "float32", "float64") if name in computed), "float32")
        ranges = {name: domain.to_json() for name, domain in self.program.domains.items()}
        return ModelFacts(tuple(listed), tuple(self.outputs), tuple(values), operators, reads, places, precision, ranges)

    def run(self, feeds: Arrays, keep: Sequence[str]) -> dict[str, Array]:
        whole = set(feeds) <= set(self.inputs)
        if whole and set(keep) <= set(self.outputs):
            results = dict(zip(self.outputs, self._called(feeds), strict=False))
            return {name: results[name] for name in keep}
        return self._interpreted(feeds, keep)

    def _called(self, feeds: Arrays) -> list[Array]:
        """The outputs of the module itself, with the user's own lines; of what torch compiled from it, if that is asked for."""
        import torch
        from torch.utils import _pytree as pytree  # pyright: ignore[reportPrivateImportUsage]

        from tensorproof.execute.plain_control_flow import plain_control_flow
        from tensorproof.frontends.aten import array_of
        from tensorproof.frontends.user_program import speaking_aside

        module: Any = self.program.traced.module
        if self.is_compiled:
            self.compiled = self.compiled or torch.compile(module)
            module = self.compiled
        args, kwargs = self.program.traced.call({name: self.runner.tensor(name, array) for name, array in feeds.items()})
        torch.manual_seed(_SEED)
        with torch.no_grad(), plain_control_flow(), speaking_aside():
            results = module(*args, **kwargs)
        return [array_of(leaf) for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]

    def _interpreted(self, feeds: Arrays, keep: Sequence[str]) -> dict[str, Array]:
        """Inner values: the exported program node by node, and no further than it takes. Nothing is kept that is not needed."""
        import torch
        from torch import fx

        from tensorproof.frontends.aten import array_of
        from tensorproof.frontends.user_program import speaking_aside

        wanted = set(keep)
        needed = self._needed(feeds, wanted)
        found: dict[str, Array] = {name: np.asarray(feeds[name]) for name in wanted if name in feeds}
        types = {node.name: getattr(node.meta.get("val"), "dtype", None) for node in self.nodes}

        def tensor(name: str, array: Array) -> Tensor:
            return torch.from_numpy(np.array(array.astype(np.float32) if array.dtype.kind == "V" else array)).to(types[name])

        class Part(fx.Interpreter):
            def run_node(self, n: fx.Node) -> Any:
                if n.op != "placeholder" and n.name in feeds:
                    return tensor(n.name, feeds[n.name])
                if n.op == "output":
                    return None
                if n.op == "call_function" and n.name not in needed:
                    return None
                result = super().run_node(n)
                if n.name in wanted and isinstance(result, torch.Tensor):
                    found[n.name] = array_of(result)
                return result

        given = {name: self.runner.tensor(name, array) for name, array in feeds.items() if name in self.inputs}
        torch.manual_seed(_SEED)
        with torch.no_grad(), speaking_aside():
            flat = self.runner.flat(given)
            Part(self.program.traced.program.graph_module).run(
                *(item.clone() if isinstance(item, torch.Tensor) else item for item in flat)
            )
        return found

    def _needed(self, feeds: Arrays, wanted: set[str]) -> set[str]:
        by_name = {node.name: node for node in self.nodes}
        found: set[str] = set()
        stack = [name for name in wanted if name not in feeds]
        while stack:
            name = stack.pop()
            if name not in found and name not in feeds:
                found.add(name)
                stack.extend(entry.name for entry in by_name[name].all_input_nodes)
        return found
