"""Rack-aware striped placement of replicas over the usable brokers.

Leaders rotate over the racks and replicas are striped over them; a fenced broker is chosen only if
a rack has no unfenced one left, and never as leader; no broker gets a partition twice. After as
many partitions as there are unfenced brokers the lists are shuffled, so that layouts do not repeat.
Source: apache/kafka: metadata/.../placement/StripedReplicaPlacer.java (3.0+).

One deviation: a shuffle also resets the pass in which a list was last used. Kafka keeps it, so a
list last used in pass 0 seems exhausted in the next pass 0; with some lists its loop never ends.
"""

import msgspec

from wire.errors import ApiError, ErrorCode
from wire.types import Rng


class UsableBroker(msgspec.Struct, frozen=True, gc=False):
    """A broker that may get replicas; brokers in controlled shutdown are not usable."""

    id: int
    rack: str | None
    fenced: bool


class _BrokerList:
    """Broker ids returned one by one, from another start in each pass."""

    __slots__ = ("brokers", "index", "offset", "used_in_pass")

    def __init__(self, brokers: list[int], rng: Rng) -> None:
        self.brokers = sorted(brokers)
        self.offset = rng.randrange(len(brokers)) if brokers else 0
        self.index = 0
        self.used_in_pass = 0

    def next(self, current_pass: int) -> int | None:
        """Return the next broker of this pass, None after the last."""
        size = len(self.brokers)
        if not size:
            return None
        if self.used_in_pass != current_pass:
            self.used_in_pass = current_pass
            self.index = 0
            self.offset = (self.offset + 1) % size
        if self.index >= size:
            return None
        broker = self.brokers[(self.index + self.offset) % size]
        self.index += 1
        return broker

    def shuffle(self, rng: Rng) -> None:
        """Shuffle the list and make every broker available again."""
        rng.shuffle(self.brokers)
        self.used_in_pass = -1


class _Rack:
    """The unfenced and the fenced brokers of one rack."""

    __slots__ = ("fenced", "unfenced")

    def __init__(self, brokers: list[UsableBroker], rng: Rng) -> None:
        self.fenced = _BrokerList([b.id for b in brokers if b.fenced], rng)
        self.unfenced = _BrokerList([b.id for b in brokers if not b.fenced], rng)

    def next(self, current_pass: int) -> int | None:
        """Return an unfenced broker, else a fenced one, else None."""
        broker = self.unfenced.next(current_pass)
        return self.fenced.next(current_pass) if broker is None else broker

    def shuffle(self, rng: Rng) -> None:
        """Shuffle both lists and make every broker available again."""
        self.fenced.shuffle(rng)
        self.unfenced.shuffle(rng)


class _RackList:
    """All racks in the order of striping."""

    def __init__(self, brokers: list[UsableBroker], rng: Rng) -> None:
        by_rack: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack, []).append(broker)
        # Brokers without a rack form a rack of their own, which sorts first.
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self.racks = [_Rack(by_rack[name], rng) for name in names]
        self.offset = rng.randrange(len(self.racks))
        self.unfenced_count = sum(1 for broker in brokers if not broker.fenced)
        self.current_pass = 0
        self.rng = rng
        assert self.unfenced_count > 0, "a leader needs an unfenced broker"

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """Return the replicas of the next partition, leader first."""
        if self.current_pass == self.unfenced_count and self.unfenced_count > 1:
            self._shuffle()
        rack_count = len(self.racks)
        if self.offset == rack_count:
            self.offset = 0
        current_pass = self.current_pass
        leader_rack = self.offset
        leader = self.racks[leader_rack].unfenced.next(current_pass)
        while leader is None:
            leader_rack = (leader_rack + 1) % rack_count
            leader = self.racks[leader_rack].unfenced.next(current_pass)
        replicas = [leader]
        rack_index = self.offset
        while len(replicas) < replication_factor:
            if rack_index == leader_rack:
                leader_rack = -1  # the leader's rack is used in this round
            else:
                broker = self.racks[rack_index].next(current_pass)
                if broker is not None:
                    replicas.append(broker)
            rack_index += 1
            if rack_index == rack_count:
                rack_index = 0
        self.current_pass += 1
        self.offset += 1
        return tuple(replicas)

    def _shuffle(self) -> None:
        self.rng.shuffle(self.racks)
        for rack in self.racks:
            rack.shuffle(self.rng)
        self.current_pass = 0


def place(
    partition_count: int, replication_factor: int, brokers: list[UsableBroker], rng: Rng
) -> list[tuple[int, ...]] | ApiError:
    """Replica lists for `partition_count` new partitions, leader first.

    Args:
        partition_count: at least 1.
        replication_factor: replicas of each partition.
        brokers: usable brokers, sorted by id (the result depends on the order).
        rng: randomness of the offsets and shuffles.

    Returns:
        INVALID_REPLICATION_FACTOR when it is not positive, when every broker is fenced, or when
        there are fewer brokers than replicas.
    """
    assert partition_count > 0, f"{partition_count=}"
    error: str | None = None
    if replication_factor <= 0:
        error = (
            f"Invalid replication factor {replication_factor}: "
            "the replication factor must be positive."
        )
    elif all(broker.fenced for broker in brokers):
        error = "All brokers are currently fenced."
    elif replication_factor > len(brokers):
        error = (
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {len(brokers)} broker(s) are registered or some brokers have all their log "
            "directories cordoned."
        )
    if error is not None:
        return ApiError(ErrorCode.invalid_replication_factor, error)
    racks = _RackList(brokers, rng)
    return [racks.place(replication_factor) for _ in range(partition_count)]
