"""Operations of clients, drawn from the seed: their kinds, their keys, the time between them.

Each thread has a random stream of its own, so a slow thread does not change what the others ask.
Keys rotate: after some operations a key is left for a new one, which keeps the work of the checker
small, since unknown outcomes add up on a key.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

ACTIVE_KEYS: Final = 4
OPERATIONS_PER_KEY: Final = 100


class Ask(msgspec.Struct, frozen=True):
    """One operation to do: function, value of the invocation, and key.

    `at_leader`: a read asks the leader; else any node.
    """

    f: str
    value: Any
    key: str
    at_leader: bool = True


class Rotation:
    """Keys in use, each left after `OPERATIONS_PER_KEY` operations."""

    def __init__(self, name: str, keys_max: int | None = None) -> None:
        """Begin with the first keys.

        Args:
            name: Keys are `name-0`, `name-1`, ...
            keys_max: Number of keys; None: no limit. The last ones are never left.
        """
        self._name = name
        self._keys_max = keys_max
        self._counts = [0] * ACTIVE_KEYS
        self._active = list(range(ACTIVE_KEYS))
        self._next = ACTIVE_KEYS

    def take(self, rng: Random) -> str:
        """Choose the key of the next operation."""
        place = rng.randrange(ACTIVE_KEYS)
        self._counts[place] += 1
        key = self._active[place]
        is_done = self._counts[place] >= OPERATIONS_PER_KEY
        if is_done and (self._keys_max is None or self._next < self._keys_max):
            self._active[place] = self._next
            self._counts[place] = 0
            self._next += 1
        return self.key(key)

    def key(self, number: int) -> str:
        """Name of a key."""
        return f"{self._name}-{number}"

    @property
    def used(self) -> list[str]:
        """Every key that was taken so far or is in use."""
        return [self.key(number) for number in range(self._next)]


Draw = Callable[[Random], Ask]


def topic_set_draw(rotation: Rotation, id_of: Callable[[str], str | None]) -> Draw:
    """Draw creates of topics thought absent, deletes of the rest (half of them by id), lookups.

    Args:
        rotation: Topic names.
        id_of: Last id that a client got for a name; None: it got that there is no topic.
    """

    def draw(rng: Random) -> Ask:
        key = rotation.take(rng)
        choice, by_id, at_leader = rng.random(), rng.random() < 0.5, rng.random() < 0.7
        if choice < 0.4:
            return Ask("exists", [key, None], key, at_leader)
        topic_id = id_of(key)
        if (choice < 0.5) == (topic_id is not None):  # now and then what should be refused
            return Ask("create", [key, None], key)
        return Ask("delete", [key, topic_id if by_id else None], key)

    return draw


def register_draw(rotation: Rotation) -> Draw:
    """Draw writes of values that are never used twice, and reads."""
    written = 0

    def draw(rng: Random) -> Ask:
        nonlocal written
        key = rotation.take(rng)
        choice, at_leader = rng.random(), rng.random() < 0.7
        if choice < 0.5:
            written += 1
            return Ask("write", written, key)
        return Ask("read", None, key, at_leader)

    return draw


def client_rng(seed: int, thread: int) -> Random:
    """Random stream of a client thread."""
    return Random(f"{seed}/client/{thread}")  # noqa: S311  # reproducible, not secret


def think_time_s(rng: Random, rate: float, concurrency: int) -> float:
    """Draw the pause of a thread before its next operation, for `rate` a second of all threads."""
    return rng.expovariate(rate / concurrency)
