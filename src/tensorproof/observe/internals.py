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


def is_plain(tensor: Any) -> bool:
    """Whether a tensor's class leaves operators to PyTorch: one that does not is a stand-in, as for a distributed tensor."""
    return type(tensor).__torch_dispatch__ is _torch()._C._disabled_torch_dispatch_impl


def memory_identity(tensor: Any) -> int:
    """What tensors that are views of the same memory share."""
    return int(tensor.untyped_storage()._cdata)


def memory_reference(tensor: Any) -> Any:
    """A weak reference that keeps the identity of memory from being used again; `expired` says that the memory is gone."""
    return import_module("torch.multiprocessing.reductions").StorageWeakRef(tensor.untyped_storage())


def changes(tensor: Any) -> int:
    """How often a tensor was changed in place; tensors of inference mode do not count that."""
    return 0 if tensor.is_inference() else int(tensor._version)


def buffers_held_by(module: Any) -> dict[str, Any]:
    """The dictionary in which a module holds its own buffers; some may be None."""
    return module._buffers


@cache
def _overrides() -> Any:
    return import_module("torch.overrides")


@cache
def _device_context() -> type:
    return import_module("torch.utils._device").DeviceContext


def can_listen() -> bool:
    """Whether a function mode may be entered: the user would leave it instead of a mode that the user entered before.

    The mode of a default device is no hindrance: it looks for itself on the stack when it is left.
    """
    return all(isinstance(mode, _device_context()) for mode in _overrides()._get_current_function_mode_stack())


def innermost_function_mode() -> object:
    """The function mode that was entered last; None if there is none."""
    return _overrides()._get_current_function_mode()
