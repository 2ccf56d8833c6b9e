"""The private parts of PyTorch that observation stands on, in one place; tested with the versions of `constraints.txt`.

Everything else of the package calls documented functions.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any


@cache
def _torch() -> Any:
    return import_module("torch")


class Autograd:
    """The state of autograd in this thread. Its functions are looked up once: they are called for every operator."""

    def __init__(self) -> None:
        torch = _torch()
        #: The number of the running backward pass, -1 outside of one.
        self.backward_pass = torch._C._current_graph_task_id
        #: The node that a backward pass is at, None between nodes.
        self.current_node = torch._C._current_autograd_node
        #: The number that the next node of a graph will get.
        self.next_number = torch.autograd._get_sequence_nr
        self._hooks = torch._C._autograd._top_saved_tensors_default_hooks

    def saves_plainly(self) -> bool:
        """Whether what operators save for the backward pass is kept as it is, not packed, as a checkpoint does."""
        return self._hooks(False) is None


def innermost_mode() -> object:
    """The dispatch mode that was entered last."""
    return import_module("torch.utils._python_dispatch")._get_current_dispatch_mode()


def is_plain(tensor: Any) -> bool:
    """Whether a tensor's class leaves operators to PyTorch: one that does not is a stand-in, as for a distributed tensor."""
    return type(tensor).__torch_dispatch__ is _torch()._C._disabled_torch_dispatch_impl


def memory_identity(tensor: Any) -> int:
    """What tensors that are views of the same memory share."""
    return int(tensor.untyped_storage()._cdata)


def memory_reference(tensor: Any) -> Any:
    """A weak reference that keeps the identity of memory from being used again; `expired` says that the memory is gone."""
    return import_module("torch.multiprocessing.reductions").StorageWeakRef(tensor.untyped_storage())
