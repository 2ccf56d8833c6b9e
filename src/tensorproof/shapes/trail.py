"""`Trail`: every write to the state of the program, so that a branch can be undone, kept and joined with another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from tensorproof.shapes.values import Frame, Mutable, new_serial

#: A name or field that holds nothing.
MISSING: Any = object()

Location: TypeAlias = tuple[int, str]
#: What a stretch of the run wrote: by location, the object, the field and its last value.
Changes: TypeAlias = dict[Location, tuple[Mutable, str, Any]]


class Mark(NamedTuple):
    """A point of the run: how long the log was, and which objects existed."""

    position: int
    serial: int


class Trail:
    """A log of writes. Objects are kept alive by it, so that their `serial` names them."""

    def __init__(self) -> None:
        self._log: list[tuple[Mutable, str, Any]] = []
        #: Names the state that others than the running function can see: what a memo must not outlive.
        self.version = 0
        self._newest = 0
        self._changed_unlogged = 0

    def mark(self) -> Mark:
        """The point of now, to come back to."""
        return Mark(len(self._log), new_serial())

    def write(self, owner: Mutable, key: str, value: Any) -> None:
        """Set a field; `MISSING` deletes it."""
        self._touch(owner)
        self._log.append((owner, key, owner.slots.get(key, MISSING)))
        _put(owner, key, value)

    def changes(self, mark: Mark) -> Changes:
        """What was written since the mark, with the values of now."""
        return {(owner.serial, key): (owner, key, owner.slots.get(key, MISSING)) for owner, key, _ in self._log[mark.position :]}

    def before(self, mark: Mark) -> Changes:
        """The same locations with the values that they had at the mark."""
        found: Changes = {}
        for owner, key, old in self._log[mark.position :]:
            found.setdefault((owner.serial, key), (owner, key, old))
        return found

    def undo(self, mark: Mark) -> Changes:
        """Go back to the mark; what was undone can be applied again.

        Objects that were made since keep their fields: nothing of then knows them, and a value that outlives the branch may.
        """
        undone = self.changes(mark)
        while len(self._log) > mark.position:
            owner, key, old = self._log.pop()
            if owner.serial < mark.serial:
                self._touch(owner)
                _put(owner, key, old)
        return undone

    def _touch(self, owner: Mutable) -> None:
        if not _is_local(owner):
            self.version = self._newest = self._newest + 1

    def note_unlogged_change(self) -> None:
        """Something changed that no log undoes: the content of an array."""
        self.version = self._newest = self._changed_unlogged = self._newest + 1

    def settle(self, mark: Mark, version: int) -> None:
        """A call ended whose result holds no object: if it wrote to no object but its own, the state is `version` again."""
        written = (owner for owner, _, _ in self._log[mark.position :])
        if self._changed_unlogged <= version and all(owner.serial > mark.serial or _is_local(owner) for owner in written):
            self.version = version

    def apply(self, changes: Changes) -> None:
        for owner, key, value in changes.values():
            self.write(owner, key, value)

    def join(self, mark: Mark, others: Iterable[Changes], join: Callable[[Mutable, str, Any, Any], Any]) -> None:
        """Join the state of now with other ends of the stretch that began at the mark."""
        start = self.before(mark)
        for other in others:
            for location in {**start, **other}:
                owner, key, _ = other.get(location) or start[location]
                now = owner.slots.get(key, MISSING)
                start.setdefault(location, (owner, key, now))
                then = other[location][2] if location in other else start[location][2]
                joined = now if then is MISSING else then if now is MISSING else join(owner, key, now, then)
                if joined is not now:
                    self.write(owner, key, joined)


def _is_local(owner: Mutable) -> bool:
    """Local variables of a running function are seen by that function alone; everything else is the state of the program."""
    return isinstance(owner, Frame) and owner.function is not None and not owner.is_class


def _put(owner: Mutable, key: str, value: Any) -> None:
    if value is MISSING:
        owner.slots.pop(key, None)
    else:
        owner.slots[key] = value
