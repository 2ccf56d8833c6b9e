"""Regions of a program that torch keeps as graphs of their own: `torch.no_grad`, `torch.autocast`, checkpoints.

Torch dissolves them when it takes a program apart. What they mean must outlive that: results of a region without gradients are
detached, and operators inside of a region keep the user's line.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensorproof.frontends.user_frames import line_in

if TYPE_CHECKING:
    from torch.export import ExportedProgram

#: The statement of generated code that a trace points at: it assigns to the name of the node.
_STATEMENT = re.compile(r'File "<eval_with_key>[^"]*", line \d+, in \S+\n\s*(?P<name>\w+)\s*(?::[^=]*)?= ')


def prepare_regions(program: ExportedProgram) -> None:
    """Detach the results of regions in which gradients are switched off."""
    import torch

    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        changed = False
        for node in list(module.graph.nodes):
            if getattr(node.target, "__name__", "") != "wrap_with_set_grad_enabled" or node.args[0] is not False:
                continue
            for user in [user for user in node.users if user.target is operator.getitem]:
                if not isinstance(user.meta.get("val"), torch.Tensor):
                    continue
                with module.graph.inserting_after(user):
                    detached = module.graph.call_function(torch.ops.aten.detach.default, (user,))
                user.replace_all_uses_with(detached, delete_user_cb=lambda other, own=detached: other is not own)
                detached.meta = dict(user.meta)
                changed = True
        if changed:
            module.recompile()


def traces_of(program: ExportedProgram) -> dict[str, str]:
    """The traces of all nodes, those inside of regions included, by name."""
    found: dict[str, str] = {}
    for module in program.graph_module.modules():
        nodes: Any = getattr(getattr(module, "graph", None), "nodes", ())
        for node in nodes:
            trace = node.meta.get("stack_trace")
            if trace and line_in(trace) is not None:
                found.setdefault(node.name, trace)
    return found


def restore_lines(program: ExportedProgram, traces: Mapping[str, str]) -> None:
    """Give nodes whose traces end in generated code the traces that they had before."""
    for node in program.graph.nodes:
        trace = node.meta.get("stack_trace")
        if not trace or line_in(trace) is not None:
            continue
        statements = _STATEMENT.findall(trace)
        if statements and statements[-1] in traces:
            node.meta["stack_trace"] = traces[statements[-1]]
