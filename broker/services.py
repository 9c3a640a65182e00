"""Services of the whole for the parts of a broker's records: time, effects, work, requests."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from broker.effects import Effect, EffectSink, Lane
from network.clock import Clock
from replication.leader.leadership import Changed
from replication.partition import Partition
from storage.vfs import Vfs
from wire.messages.codec import Entity
from wire.types import LeaderEpoch, NodeId, Rng, TopicIdPartition

WorkFinished = Callable[[BaseException | None], None]
"""Told in a later step that work has run, with what it raised."""


class RunsWork(Protocol):
    """Hand work to a lane of the driver."""

    def __call__(
        self, lane: Lane, name: str, work: Callable[[], object], done: WorkFinished, /
    ) -> None:
        """Run `work` in the lane of this name, then tell `done`."""
        ...


class AsksController(Protocol):
    """Send a request to the active controller."""

    def __call__(
        self, api_key: int, body: Entity, answered: Callable[[object | None], None], /
    ) -> None:
        """Send it; `answered` gets the body of the response, None if there is none."""
        ...


class HostsPartitions(Protocol):
    """The replica manager, for the parts that change partitions."""

    def host(self, key: TopicIdPartition, partition: Partition, /) -> None:
        """Take a partition of which this broker becomes a replica."""
        ...

    def drop(self, key: TopicIdPartition, /) -> None:
        """Let a partition go, and answer who waits for it."""
        ...

    def took(self, key: TopicIdPartition, changed: Changed, /) -> None:
        """Follow a step of a hosted partition."""
        ...

    def check(self, key: TopicIdPartition, /) -> None:
        """Try all who wait for a partition that has another role or epoch."""
        ...

    def check_all(self, keys: Sequence[TopicIdPartition], /) -> None:
        """Try all who wait for one of these partitions, each once."""
        ...


class FetchesFromLeaders(Protocol):
    """The fetchers of this broker's followers."""

    def assign(
        self, key: TopicIdPartition, topic: str, leader_id: NodeId, leader_epoch: LeaderEpoch, /
    ) -> None:
        """Fetch a partition from this leader from now on."""
        ...

    def remove(self, key: TopicIdPartition, /) -> None:
        """Fetch a partition no more; nothing if it is not fetched."""
        ...


class Services(msgspec.Struct, frozen=True):
    """The step that runs: its time, its effects, and what it asks of the driver."""

    clock: Clock
    effects: EffectSink
    run: RunsWork
    ask: AsksController

    @property
    def now_ms(self) -> int:
        """Instant of the step, monotonic."""
        return self.clock.now_ms

    @property
    def wall_ms(self) -> int:
        """Wall clock of the step."""
        return self.clock.wall_ms

    def emit(self, effect: Effect) -> None:
        """Add the next effect of the step."""
        self.effects.append(effect)


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """The disk of a broker, and how its log directories were left."""

    vfs: Vfs
    clean_log_dirs: AbstractSet[str]
    """Those that a clean shutdown left."""
    new_uuid: Callable[[], bytes]
    rng: Rng
    guards: Mapping[str, AbstractContextManager[object]] = msgspec.field(default_factory=dict)
    """Locks by log directory, held while the recovery points are written: by the step thread at a
    truncation, by a lane, and by the metadata log of the kernel."""
