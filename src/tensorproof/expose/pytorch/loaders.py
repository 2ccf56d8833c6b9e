"""Batches of DataLoaders: kept, moved and fed again, as GRIST does; fresh ones give the samples that replace others."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from inspect import currentframe
from typing import TYPE_CHECKING, Any

from tensorproof.observe.places import mark

if TYPE_CHECKING:
    from tensorproof.expose.pytorch.program import TorchRun

#: The base of all iterators over loaders, in one process and with workers.
_ITERATOR = "_BaseDataLoaderIter"


class Loaders:
    """Stands between the loaders of a program and the program."""

    def __init__(self, run: TorchRun) -> None:
        self._run = run
        #: Loaders in the order in which they were first used, with the lines that did.
        self._loaders: list[tuple[weakref.ref[Any], tuple[str | None, int | None]]] = []
        self._original: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def install(self) -> None:
        """Put ourselves between loaders and the program."""
        from torch.utils.data import DataLoader, dataloader

        loader_class: Any = DataLoader
        iterator_class: Any = getattr(dataloader, _ITERATOR)
        opened: Any = loader_class.__iter__
        asked: Any = iterator_class.__next__
        self._original = opened, asked
        owner = self

        def begin(loader: Any) -> Any:
            with owner._run.aside():
                iterator = opened(loader)
            iterator.tensorproof_number = owner.number(loader)
            return iterator

        def give(iterator: Any) -> Any:
            owner._run.boundary()
            with owner._run.aside():
                fresh = asked(iterator)
            return owner.fed(f"batch{getattr(iterator, 'tensorproof_number', 0)}", fresh)

        loader_class.__iter__ = begin
        iterator_class.__next__ = give

    def remove(self) -> None:
        """Leave loaders as they were."""
        from torch.utils.data import DataLoader, dataloader

        if self._original is not None:
            loader_class: Any = DataLoader
            iterator_class: Any = getattr(dataloader, _ITERATOR)
            loader_class.__iter__, iterator_class.__next__ = self._original

    def number(self, loader: Any) -> int:
        """Loaders in the order in which they are used; one that a line makes anew has the number of the one that is gone."""
        place = mark({}, currentframe()).place()
        where = place.file, place.line
        known = [number for number, (held, _) in enumerate(self._loaders) if held() is loader]
        gone = [number for number, (held, line) in enumerate(self._loaders) if held() is None and line == where]
        number = next(iter((*known, *gone)), len(self._loaders))
        self._loaders[number : number + 1] = [(weakref.ref(loader), where)]
        return number

    def fed(self, name: str, fresh: Any) -> Any:
        """What the program gets in place of a fresh batch."""
        import torch
        from torch.utils import _pytree

        leaves, form = _pytree.tree_flatten(fresh)
        with self._run.aside():
            for number, leaf in enumerate(leaves):
                if isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.device.type == "cpu":
                    kept = self._run.feeding.given(name, f"{name}.{number}", leaf.detach().numpy())
                    leaves[number] = leaf if kept is None else torch.from_numpy(kept.copy())
                    self._run.externals.fed(f"{name}.{number}", leaves[number])
        return _pytree.tree_unflatten(leaves, form)
