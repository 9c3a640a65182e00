"""The leader's view of a replica that fetches from it."""

import msgspec

from raft.config import OBSERVER_EXPIRY_MS
from raft.messages import FetchRequest, FetchResponse
from wire.types import Offset, ReplicaKey


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Fetch state of a replica: a Fetch at offset f acknowledges everything below f."""

    end_offset: Offset | None = None
    last_contact_ms: int | None = None
    """Monotonic time of the last Fetch or FetchSnapshot."""
    last_fetch_wall_ms: int = -1
    last_caught_up_wall_ms: int = -1
    leader_end_at_last_fetch: Offset | None = None
    last_exchange_ms: int | None = None
    """Monotonic time of the last contact or of the last BeginQuorumEpoch sent to it."""


class ParkedFetch(msgspec.Struct, frozen=True, kw_only=True):
    """A Fetch that waits for records, for a higher high watermark or for its time-out."""

    reply_token: int
    request: FetchRequest
    deadline_ms: int
    wall_ms: int
    response: FetchResponse
    connection_id: int | None = None


def fetched(
    progress: Progress, fetch_offset: Offset, leader_end: Offset, now_ms: int, wall_ms: int
) -> Progress:
    """Return the progress after a valid Fetch at `fetch_offset`.

    A replica is caught up at the leader's current log end, or at the log end of its previous fetch
    (apache/kafka: raft/.../LeaderState.java, `updateFollowerState`). The end offset may decrease: a
    voter that lost its disk fetches from 0 again.
    """
    assert fetch_offset >= 0, f"{fetch_offset=}"
    assert fetch_offset <= leader_end, f"{fetch_offset=} {leader_end=}"
    caught_up = progress.last_caught_up_wall_ms
    previous_end = progress.leader_end_at_last_fetch
    if fetch_offset >= leader_end:
        caught_up = max(caught_up, wall_ms)
    elif previous_end is not None and 0 < previous_end <= fetch_offset:
        caught_up = max(caught_up, progress.last_fetch_wall_ms)
    return Progress(
        end_offset=fetch_offset,
        last_contact_ms=now_ms,
        last_fetch_wall_ms=max(progress.last_fetch_wall_ms, wall_ms),
        last_caught_up_wall_ms=caught_up,
        leader_end_at_last_fetch=leader_end,
        last_exchange_ms=now_ms,
    )


def recent_observers(
    observers: dict[ReplicaKey, Progress], now_ms: int
) -> dict[ReplicaKey, Progress]:
    """Return the observers that fetched within the last five minutes."""
    limit_ms = now_ms - OBSERVER_EXPIRY_MS
    return {key: seen for key, seen in observers.items() if (seen.last_contact_ms or 0) >= limit_ms}


def contacted(progress: Progress, now_ms: int) -> Progress:
    """Return the progress after a FetchSnapshot: alive, but no offset acknowledged."""
    return msgspec.structs.replace(progress, last_contact_ms=now_ms, last_exchange_ms=now_ms)
