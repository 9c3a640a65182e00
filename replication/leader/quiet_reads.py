"""Reads of followers at the end of a log, which are repeated as long as nothing has changed.

A Fetch of a follower names all partitions that it follows at this leader, and most have nothing
new: to read each again makes a record cost more, the more partitions are beside its own. So what a
read at the end depends on is kept with it, and compared. Only reads of members of the ISR are: by a
fetch of another one it may join, and a watermark may rise.

apache/kafka: core/.../server/ReplicaManager.scala (`fetchMessages`) reads all of them.
"""

from typing import Generic, Protocol, TypeVar

import msgspec

from replication.leader.fetch_params import FetchParams
from replication.leader.fetch_session import FetchPartition
from replication.leader.isr import CommittedPartitionState, PartitionState
from replication.leader.leadership import Leadership
from replication.leader.replica import Registration, ReplicaState
from replication.roles import Following, Offline
from storage.logs.log import Log
from storage.logs.unified_log import UnifiedLog
from wire.types import BrokerEpoch, NodeId

Read = TypeVar("Read")


class Wanted(Protocol):
    """A partition of a Fetch."""

    @property
    def topic(self) -> str | bytes:
        """Name or id, as the request has it."""
        ...

    @property
    def request(self) -> FetchPartition:
        """Its row."""
        ...


class QuietRead(msgspec.Struct, Generic[Read], kw_only=True):
    """A read at the end of a log, and what it depends on."""

    read: Read
    wanted: Wanted
    replica_epoch: BrokerEpoch | None
    """Of the request."""
    replica: ReplicaState
    """Of the follower since its last fetch; another one is a fetch, a leader epoch, or another log
    in between."""
    state: PartitionState
    registration: Registration | None
    """Of the follower's broker, as the metadata has it."""
    log: UnifiedLog
    """Read one."""
    segments: Log
    """Files of it."""
    end_offset: int
    high_watermark: int
    log_start_offset: int
    """Of the log. Its last stable offset follows from these, and followers do not ask for it."""
    last_base_offset: int
    """Of the segment of its end."""


class Repeats(Generic[Read]):
    """The reads that a Fetch of a follower repeats.

    Its session has all partitions that it follows, and those to which nothing has happened cost it
    most. So what is the same for all is asked for once, and the rest is compared in place.

    Args:
        replica_id: the follower.
        replica_epoch: of the request.
        now_ms: instant of the request.
        repeated: takes such reads.
    """

    __slots__ = ("_now_ms", "_registered", "_repeated", "_replica_epoch", "_replica_id")

    def __init__(
        self,
        replica_id: NodeId,
        replica_epoch: BrokerEpoch | None,
        now_ms: int,
        repeated: list[Read],
    ) -> None:
        self._repeated = repeated
        self._replica_id = replica_id
        self._replica_epoch = replica_epoch
        self._now_ms = now_ms
        self._registered: tuple[Registration | None] | None = None
        """Of the follower's broker: all leaders are of this one, and have it from its metadata."""

    def read(self, leader: Leadership | Following | Offline | None, wanted: Wanted) -> Read | None:
        """Take the follower's fetch of a partition, if it reads what it read before; else None.

        The follower is caught up, as by any fetch at the log end.

        Args:
            leader: role of the partition; None for one that is not here.
            wanted: row of the request for it.
        """
        if not isinstance(leader, Leadership):
            return None
        quiet: QuietRead[Read] | None = leader.quiet_reads.get(self._replica_id)
        if quiet is None:
            return None
        if self._registered is None:
            self._registered = (leader.broker_of(self._replica_id),)
        replica, log, segments = quiet.replica, quiet.log, quiet.segments
        replicas = leader.replicas
        if (
            replicas.get(self._replica_id) is not replica
            or leader.state is not quiet.state
            or segments.end_offset != quiet.end_offset
            or log.high_watermark != quiet.high_watermark
            or segments.log_start_offset != quiet.log_start_offset
            or segments.segments[-1].base_offset != quiet.last_base_offset
            or self._registered[0] is not quiet.registration
            or self._replica_epoch != quiet.replica_epoch
        ):
            return None
        if wanted is not quiet.wanted:  # it is the same for as long as a session names it so
            if wanted.topic != quiet.wanted.topic or wanted.request != quiet.wanted.request:
                return None
            quiet.wanted = wanted
        now_ms = self._now_ms
        if replica.last_fetch_ms != now_ms:  # then it was caught up, too
            replicas[self._replica_id] = quiet.replica = msgspec.structs.replace(
                replica, last_fetch_ms=now_ms, last_caught_up_ms=now_ms
            )
        self._repeated.append(quiet.read)
        return quiet.read


def note_fetch(leader: Leadership, replica_id: NodeId, fetch_ms: int) -> None:
    """Note that a follower had all of a log at an instant, if nothing has happened to it since."""
    quiet: QuietRead[object] | None = leader.quiet_reads.get(replica_id)
    if quiet is None or leader.replicas.get(replica_id) is not quiet.replica:
        return
    noted_ms = quiet.replica.last_fetch_ms
    if noted_ms is not None and noted_ms < fetch_ms:
        leader.replicas[replica_id] = quiet.replica = msgspec.structs.replace(
            quiet.replica, last_fetch_ms=fetch_ms, last_caught_up_ms=fetch_ms
        )


def repeats_of(params: FetchParams, now_ms: int, repeated: list[Read]) -> Repeats[Read] | None:
    """The repeats of a Fetch at an instant; None of a consumer's."""
    if params.replica_id is None:
        return None
    return Repeats(params.replica_id, params.replica_epoch, now_ms, repeated)


def kept(
    leader: Leadership, read: Read, params: FetchParams, wanted: Wanted
) -> QuietRead[Read] | None:
    """Keep a read for which the fetch of a follower at the log end has just been taken.

    None if the follower is no member of the ISR, or the ISR is about to change.
    """
    replica_id, state, log = params.replica_id, leader.state, leader.log
    assert replica_id is not None, "a consumer's fetch says nothing of a replica"
    log_end = leader.replicas[replica_id].log_end
    assert log_end is not None, f"{replica_id=} has not fetched"
    assert log_end.offset == log.end_offset, f"{log_end=} {log.end_offset=}"
    if not isinstance(state, CommittedPartitionState) or replica_id not in state.isr:
        return None
    segments = _segments(log)
    return QuietRead(
        read=read,
        wanted=wanted,
        replica_epoch=params.replica_epoch,
        replica=leader.replicas[replica_id],
        state=state,
        registration=leader.broker_of(replica_id),
        log=log,
        segments=segments,
        end_offset=segments.end_offset,
        high_watermark=log.high_watermark,
        log_start_offset=segments.log_start_offset,
        last_base_offset=segments.segments[-1].base_offset,
    )


def _segments(log: UnifiedLog) -> Log:
    return log.log
