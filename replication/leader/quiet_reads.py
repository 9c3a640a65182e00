"""Reads of followers at the end of a log, which are repeated as long as nothing has changed.

A Fetch of a follower names all partitions that it follows at this leader, and most have nothing
new: to read each again makes a record cost more, the more partitions are beside its own. So what a
read at the end depends on is kept with it, and compared. Only reads of members of the ISR are: by a
fetch of another one it may join, and a watermark may rise.

apache/kafka: core/.../server/ReplicaManager.scala (`fetchMessages`) reads all of them.
"""

from typing import Generic, TypeVar

import msgspec

from replication.leader.fetch_params import FetchParams
from replication.leader.fetch_session import FetchPartition
from replication.leader.isr import CommittedPartitionState, PartitionState
from replication.leader.leadership import Leadership
from replication.leader.replica import Registration, ReplicaState
from storage.logs.log import Log
from storage.logs.unified_log import UnifiedLog
from wire.types import BrokerEpoch

Read = TypeVar("Read")


class QuietRead(msgspec.Struct, Generic[Read]):
    """A read at the end of a log, and what it depends on beside the ends of that log."""

    read: Read
    topic: str | bytes
    """Name or id, as the request has it."""
    request: FetchPartition
    replica_epoch: BrokerEpoch | None
    """Of the request."""
    replica: ReplicaState
    """Of the follower since its last fetch; another one is a fetch, a leader epoch, or another log
    in between."""
    state: PartitionState
    registration: Registration | None
    """Of the follower's broker, as the metadata has it."""
    offsets: tuple[int, int, int, int]
    """Of the log, as `_offsets` says."""


def repeated(
    leader: Leadership,
    quiet: QuietRead[Read],
    params: FetchParams,
    request: FetchPartition,
    now_ms: int,
) -> Read | None:
    """Take a follower's fetch that reads what it read before; None if it is to be read.

    The follower is caught up, as by any fetch at the log end.

    Args:
        leader: of the partition.
        quiet: its last read for this follower at the end of the log.
        params: of the request, which comes from a follower.
        request: row of the partition.
        now_ms: instant of the request.
    """
    replica_id = params.replica_id
    assert replica_id is not None, "a consumer's fetch says nothing of a replica"
    log, replicas = leader.log, leader.replicas
    if (
        quiet.request != request
        or quiet.replica_epoch != params.replica_epoch
        or replicas.get(replica_id) is not quiet.replica
        or leader.state is not quiet.state
        or _offsets(log) != quiet.offsets
        or leader.broker_of(replica_id) is not quiet.registration
    ):
        return None
    replicas[replica_id] = quiet.replica = msgspec.structs.replace(
        quiet.replica, last_fetch_ms=now_ms, last_caught_up_ms=now_ms
    )
    return quiet.read


def kept(
    leader: Leadership,
    read: Read,
    params: FetchParams,
    topic: str | bytes,
    request: FetchPartition,
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
    return QuietRead(
        read=read,
        topic=topic,
        request=request,
        replica_epoch=params.replica_epoch,
        replica=leader.replicas[replica_id],
        state=state,
        registration=leader.broker_of(replica_id),
        offsets=_offsets(log),
    )


def _offsets(log: UnifiedLog) -> tuple[int, int, int, int]:
    """End, high watermark and start of a log, and the base offset of the segment of its end.

    Its last stable offset follows from these, and followers do not ask for it.
    """
    return log.end_offset, log.high_watermark, log.log_start_offset, _last_base_offset(log.log)


def _last_base_offset(log: Log) -> int:
    return log.segments[-1].base_offset
