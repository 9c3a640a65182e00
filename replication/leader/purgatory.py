"""Operations that wait for an event, each until its deadline: Kafka's DelayedOperationPurgatory.

An operation is watched under one or more keys and tried when something happens to one of them. It
is completed once: by such an event, or by its deadline; from then on no key and no event reaches
it. The caller answers what `check` and `expire` return.

apache/kafka: core/.../server/DelayedOperation.scala. One heap of deadlines replaces the timing
wheel, and an operation leaves all its keys when it completes, so nothing is left to be purged.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, Generic, Protocol, TypeVar

DEAD_MAX: Final = 1_000
"""Completed operations in the heap of deadlines, beyond as many as are watched, before it is made
anew: Kafka's purge interval."""


Key_contra = TypeVar("Key_contra", bound=Hashable, contravariant=True)


class DelayedOperation(Protocol[Key_contra]):
    """Operation that a purgatory can hold."""

    def try_complete(self, changed: Iterable[Key_contra]) -> bool:
        """True if the operation is complete; it keeps what it has seen.

        Args:
            changed: those of its keys to which something happened since; all at the first time.
        """
        ...


Key = TypeVar("Key", bound=Hashable)
Operation = TypeVar("Operation", bound=DelayedOperation[Any])
Attempt = Callable[[Operation], bool]


class Watched(Generic[Key, Operation]):
    """An operation in a purgatory."""

    __slots__ = ("is_open", "is_watched", "keys", "number", "operation")

    def __init__(self, operation: Operation, keys: list[Key], number: int) -> None:
        self.operation = operation
        self.keys = keys
        self.number = number
        self.is_open = False
        """True while keys are added: it does not end before `Purgatory.close`."""
        self.is_watched = True


class Purgatory(Generic[Key, Operation]):
    """Delayed operations of one kind."""

    def __init__(self) -> None:
        self._by_key: dict[Key, dict[int, Watched[Key, Operation]]] = {}
        self._deadlines: list[tuple[int, int, Watched[Key, Operation]]] = []
        self._numbers = count()
        self.delayed_count = 0
        """Operations that wait (NumDelayedOperations)."""

    @property
    def watched_count(self) -> int:
        """Operations that wait, once for each of their keys (PurgatorySize)."""
        return sum(map(len, self._by_key.values()))

    def try_complete_else_watch(
        self,
        operation: Operation,
        keys: Iterable[Key],
        deadline_ms: int,
        *,
        is_extended: bool = False,
    ) -> Watched[Key, Operation] | None:
        """Try an operation; if it is incomplete, watch it. None if it is complete.

        Args:
            operation: not in a purgatory yet.
            keys: at least one, unless the operation is complete or will be extended.
            deadline_ms: instant at which it is completed as it is.
            is_extended: `extend` may bring more keys.
        """
        once = tuple(dict.fromkeys(keys))
        if operation.try_complete(once):
            return None
        watched = Watched(operation, list(once), next(self._numbers))
        assert watched.keys or is_extended, "only its deadline would reach one without keys"
        for key in watched.keys:
            self._by_key.setdefault(key, {})[watched.number] = watched
        heappush(self._deadlines, (deadline_ms, watched.number, watched))
        self.delayed_count += 1
        return watched

    def extend(self, watched: Watched[Key, Operation], key: Key) -> bool:
        """Watch an operation under one more key; False if it is, or has ended. It is not tried."""
        of_key = self._by_key.get(key, {})
        if not watched.is_watched or watched.number in of_key:
            return False
        self._by_key[key] = of_key
        of_key[watched.number] = watched
        watched.keys.append(key)
        return True

    def open(self, operation: Operation) -> Watched[Key, Operation]:
        """Take an operation whose keys come one after the other, and then `close`."""
        watched = Watched[Key, Operation](operation, [], next(self._numbers))
        watched.is_open = True
        self.delayed_count += 1
        return watched

    def watch(self, watched: Watched[Key, Operation], keys: Sequence[Key]) -> None:
        """Watch an open operation under more keys, and let it look at them."""
        assert watched.is_open, f"{watched.number=}"
        for key in keys:
            of_key = self._by_key.setdefault(key, {})
            if watched.number not in of_key:
                of_key[watched.number] = watched
                watched.keys.append(key)
        watched.operation.try_complete(keys)

    def close(
        self, watched: Watched[Key, Operation], deadline_ms: int, *, is_extended: bool = False
    ) -> bool:
        """Let an operation wait from now on; True if it is complete and has ended."""
        assert watched.is_open, f"{watched.number=}"
        watched.is_open = False
        if watched.operation.try_complete(()):
            self._end(watched)
            return True
        assert watched.keys or is_extended, "only its deadline would reach one without keys"
        heappush(self._deadlines, (deadline_ms, watched.number, watched))
        return False

    def is_watched(self, key: Key) -> bool:
        """True if an operation waits for a key."""
        return key in self._by_key

    def check(self, key: Key, attempt: Attempt[Operation] | None = None) -> list[Operation]:
        """Try the operations of a key, in the order in which they came; return the completed.

        Args:
            key: to which something happened.
            attempt: true if an operation is complete; None for its `try_complete` of the key.
        """
        of_key = self._by_key.get(key)
        if of_key is None:
            return []
        changed, try_one = (key,), attempt or (lambda operation: operation.try_complete(changed))
        tried = tuple(of_key.values())
        return [each.operation for each in tried if self._ends(each, try_one(each.operation))]

    def check_all(self, keys: Iterable[Key]) -> list[Operation]:
        """As `check`, of keys to which something happened at once: each operation is tried once."""
        found: dict[int, tuple[Watched[Key, Operation], list[Key]]] = {}
        for key in keys:
            for number, watched in self._by_key.get(key, {}).items():
                found.setdefault(number, (watched, []))[1].append(key)
        tried = [found[number] for number in sorted(found)]
        return [
            each.operation
            for each, changed in tried
            if self._ends(each, each.operation.try_complete(changed))
        ]

    def expire(self, now_ms: int) -> list[Operation]:
        """End the operations whose deadline has come, the earliest first; return them."""
        expired = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            watched = heappop(self._deadlines)[2]
            if watched.is_watched:
                self._end(watched)
                expired.append(watched.operation)
        return expired

    def cancel(self, watched: Watched[Key, Operation]) -> None:
        """End an operation whose client is gone; nothing if it has ended."""
        if watched.is_watched:
            self._end(watched)

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline, None if no operation waits."""
        while self._deadlines and not self._deadlines[0][2].is_watched:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _ends(self, watched: Watched[Key, Operation], is_complete: bool) -> bool:  # noqa: FBT001
        """End an operation that is complete; False for one that waits, or takes more keys."""
        ends = is_complete and not watched.is_open
        if ends:
            self._end(watched)
        return ends

    def _end(self, watched: Watched[Key, Operation]) -> None:
        assert watched.is_watched, f"{watched.number=} ends twice"
        watched.is_watched = False
        self.delayed_count -= 1
        for key in watched.keys:
            of_key = self._by_key[key]
            del of_key[watched.number]
            if not of_key:
                del self._by_key[key]
        if len(self._deadlines) > 2 * self.delayed_count + DEAD_MAX:
            self._deadlines = [entry for entry in self._deadlines if entry[2].is_watched]
            heapify(self._deadlines)
