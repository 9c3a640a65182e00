"""A fetch session at the follower (KIP-227): what each request says of what is fetched in all.

    full fetch (epoch 0) --response with an id--> incremental fetches (epoch 1, 2, ...)
         ^------- error, lost connection, or the leader closed the session -------'

A follower fetches one partition per key; what changed since the last request is sent with the next
one, what is fetched no more is forgotten. One request is in flight at a time.
apache/kafka: clients/.../clients/FetchSessionHandler.java (4.x)
"""

from collections.abc import Sequence
from enum import Enum

import msgspec

from replication.leader.fetch_session import INITIAL_EPOCH, NO_SESSION_ID, next_epoch
from wire.errors import ErrorCode
from wire.messages.replica_fetch import ReplicaFetchResponse, ReplicaFetchRow
from wire.types import Offset, TopicIdPartition


class SessionRequest(msgspec.Struct, frozen=True):
    """Part of a Fetch request for its session."""

    session_id: int
    epoch: int
    rows: Sequence[tuple[TopicIdPartition, ReplicaFetchRow]]
    forgotten: Sequence[TopicIdPartition] = ()


class Verdict(Enum):
    """Use of a response."""

    TAKEN = "taken"
    """Its partitions are to be looked at."""
    ASK_AGAIN = "ask again"
    """The leader does not have the session: a full fetch may follow at once."""
    REFUSED = "refused"
    """Neither; the next fetch is full, and should wait."""


class FollowerSession:
    """The session of one fetcher with its leader."""

    def __init__(self) -> None:
        self._id = NO_SESSION_ID
        self._epoch = INITIAL_EPOCH
        """Of the next request."""
        self._wanted: dict[TopicIdPartition, ReplicaFetchRow] = {}
        self._sent: dict[TopicIdPartition, ReplicaFetchRow] = {}
        """All that the last request fetches."""
        self._changed: dict[TopicIdPartition, None] = {}
        """Keys that may differ in the two."""

    @property
    def is_full(self) -> bool:
        """True if the next request names all partitions."""
        return self._epoch == INITIAL_EPOCH

    @property
    def has_request(self) -> bool:
        """True if there is something to fetch or to forget."""
        return bool(self._wanted) or (not self.is_full and bool(self._sent))

    def want(self, key: TopicIdPartition, row: ReplicaFetchRow) -> None:
        """Fetch a partition from the next request on; a changed one comes behind the others."""
        if self._wanted.get(key) != row:
            self._wanted.pop(key, None)
            self._wanted[key] = row
            self._changed[key] = None

    def tell_log_start(self, key: TopicIdPartition, log_start_offset: Offset) -> None:
        """Name the start of a log, which rose without a fetch, in the next request."""
        row = self._wanted.get(key)
        if row is not None:
            self.want(key, msgspec.structs.replace(row, log_start_offset=log_start_offset))

    def leave_out(self, key: TopicIdPartition) -> None:
        """Fetch a partition no more."""
        if self._wanted.pop(key, None) is not None:
            self._changed[key] = None

    def sent_row(self, key: TopicIdPartition) -> ReplicaFetchRow | None:
        """The row with which the last request fetches a partition, also if it did not name it."""
        return self._sent.get(key)

    def next_request(self) -> SessionRequest:
        """The next request; there must be one."""
        assert self.has_request, "nothing to fetch"
        wanted, sent = self._wanted, self._sent
        if self.is_full:
            self._sent = dict(wanted)
            self._changed.clear()
            return SessionRequest(self._id, self._epoch, list(wanted.items()))
        rows = [
            (key, wanted[key])
            for key in self._changed
            if key in wanted and wanted[key] != sent.get(key)
        ]
        forgotten = [key for key in self._changed if key not in wanted and key in sent]
        sent.update(rows)
        for key in forgotten:
            del sent[key]
        self._changed.clear()
        return SessionRequest(self._id, self._epoch, rows, forgotten)

    def on_response(self, response: ReplicaFetchResponse) -> Verdict:
        """Take the part of a response for the session.

        A refused full fetch is not repeated at once, other than in Kafka: nothing would change.
        """
        was_full = self.is_full
        refused = Verdict.REFUSED if was_full else Verdict.ASK_AGAIN
        if response.code is not ErrorCode.none:
            self._begin_anew(keeps_id=response.code is not ErrorCode.fetch_session_id_not_found)
            is_of_session = response.code in (
                ErrorCode.fetch_session_id_not_found,
                ErrorCode.invalid_fetch_session_epoch,
            )
            return refused if is_of_session else Verdict.REFUSED
        answered = {partition.key for partition in response.partitions}
        if not answered <= self._sent.keys() or (was_full and len(answered) != len(self._sent)):
            self._begin_anew(keeps_id=not was_full)
            return refused
        if response.session_id == NO_SESSION_ID:
            self._begin_anew(keeps_id=False)
        elif was_full:
            self._id, self._epoch = response.session_id, next_epoch(INITIAL_EPOCH)
        else:
            self._epoch = next_epoch(self._epoch)
        return Verdict.TAKEN

    def on_failure(self) -> None:
        """The request has no response: the next one closes the session and asks for another."""
        self._begin_anew(keeps_id=True)

    def _begin_anew(self, *, keeps_id: bool) -> None:
        """Let the next request be full; with the id it closes the session that the leader has."""
        self._id = self._id if keeps_id else NO_SESSION_ID
        self._epoch = INITIAL_EPOCH
