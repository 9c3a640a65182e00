"""Fetch sessions (KIP-227): a request names, and a response holds, only what changed.

A full fetch (epoch 0) asks for a session. Its response has the id of a new session, or 0 if the
cache has no room. The incremental fetches behind it count their epoch from 1; they name partitions
that are new or fetched from another offset, and those to forget. Their responses hold the
partitions with records, an error, a diverging epoch, a preferred replica, or a high watermark or
log start offset other than in the response before. Partitions whose records were sent move behind
the others, so that a limit on bytes starves none. Epoch -1, and any full fetch, closes the session.

The cache has one shard where Kafka has eight, which there divide a lock: all sessions compete for
all slots. Topics are named by id from Fetch 13 on, by name before, in one session only in one way.

apache/kafka: core/.../server/FetchSession.scala, clients/.../requests/FetchMetadata.java (4.x)
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, cast

import msgspec

from replication.leader.quiet_partitions import Basis, QuietPartitions
from replication.leader.session_partition import SessionPartition
from wire.errors import ErrorCode
from wire.messages.fetch_response import FetchedPartition
from wire.types import LeaderEpoch, Offset, Rng, TopicIdPartition

NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
"""Epoch of a full fetch that asks for a session."""
FINAL_EPOCH: Final = -1
"""Epoch of a full fetch without a session; that of versions below 7, which know none."""
EPOCH_MAX: Final = 2**31 - 1
SESSION_IDS: Final = 2**31 - 2
"""Number of ids: 1 to 2**31 - 2."""
TOPIC_ID_VERSION: Final = 13
"""First version of Fetch with ids of topics."""
EVICTION_MS_MIN: Final = 120_000
"""Time without use that makes any session evictable, and age that makes it comparable."""

PartitionKey = tuple[str | bytes, int]
"""Topic, by name or from version 13 on by id, and number of a partition."""
_EvictionKey = tuple[bool, int, int]
"""Privilege, number of partitions, id: the least valuable session is the smallest."""


class FetchPartition(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Row of a Fetch request for a partition."""

    fetch_offset: Offset
    max_bytes: int
    current_leader_epoch: LeaderEpoch | None = None
    last_fetched_epoch: LeaderEpoch | None = None
    log_start_offset: Offset | None = None
    """Of the follower; consumers have none."""


class FetchSessionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a Fetch request for its session."""

    version: int
    session_id: int = NO_SESSION_ID
    epoch: int = FINAL_EPOCH
    is_from_follower: bool
    partitions: Mapping[PartitionKey, FetchPartition]
    """In the order of the request."""
    forgotten: Sequence[PartitionKey] = ()
    prepared: "Mapping[PartitionKey, SessionPartition] | None" = None
    """The partitions as `prepare` makes them, if that is done."""


class SessionResponse(msgspec.Struct, frozen=True):
    """The rows of a Fetch response, with the error and the id of its session."""

    code: ErrorCode
    session_id: int
    rows: Sequence[FetchedPartition] = ()


class FetchSession:
    """A session in the cache."""

    __slots__ = (
        "_looked_at",
        "cached_size",
        "creation_ms",
        "epoch",
        "id",
        "is_old",
        "is_privileged",
        "last_used_ms",
        "partitions",
        "quiet",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[PartitionKey, SessionPartition],
        *,
        is_privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        self.id = session_id
        self.is_privileged = is_privileged
        """True for followers."""
        self.uses_topic_ids = uses_topic_ids
        self.partitions = partitions
        self._looked_at = dict(partitions)
        """Those that requests do not pass by, in the order in which they are to be read."""
        may_pass = is_privileged and uses_topic_ids
        self.quiet = QuietPartitions(partitions, self._looked_at) if may_pass else None
        self.creation_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        """Of the next request."""
        self.cached_size = len(partitions)
        """Number of partitions at the last use; the cache counts and ranks by it."""
        self.is_old = False
        """True if the session was above the eviction age at its last use."""

    def update(self, request: FetchSessionRequest, topic_name: "TopicName") -> None:
        """Add and change the partitions of a request, then remove the forgotten ones."""
        for key, partition in request.partitions.items():
            cached = self.partitions.get(key)
            if cached is None:
                name = _name(key, topic_name)
                self.partitions[key] = new = SessionPartition(key, name, partition)
                self._looked_at[key] = new
            else:
                cached.ask(partition)
                self._release(key)
        for key in request.forgotten:
            self._release(key)
            self.partitions.pop(key, None)
            self._looked_at.pop(key, None)

    def begin(self, basis: Basis | None, now_ms: int) -> QuietPartitions | None:
        """Take another request; the partitions that it passes by. As `IncrementalFetch.begin`."""
        quiet = self.quiet
        if quiet is not None:
            quiet.begin(basis, now_ms)
        return quiet

    def looked_at(self) -> list[SessionPartition]:
        """The partitions that a request does not pass by, in order."""
        return list(self._looked_at.values())

    def _release(self, key: PartitionKey) -> None:
        if self.quiet is not None:
            self.quiet.release(cast("TopicIdPartition", key))  # the session names topics by id

    def note(self, row: FetchedPartition) -> None:
        """Keep what a row says; a partition whose records it holds is the last to be read next."""
        key = (row.topic, row.partition)
        self.partitions[key].note(row)
        if row.records_bytes > 0:
            self._looked_at[key] = self._looked_at.pop(key)

    def eviction_key(self) -> _EvictionKey:
        """Value of this session as one to evict."""
        return self.is_privileged, self.cached_size, self.id


TopicName = Callable[[bytes], str | None]
"""Function from the id of a topic to its name, None if there is none."""


def prepare(
    partitions: Mapping[PartitionKey, FetchPartition], topic_name: TopicName
) -> dict[PartitionKey, SessionPartition]:
    """Make the partitions of a full fetch."""
    return {
        key: SessionPartition(key, _name(key, topic_name), partition)
        for key, partition in partitions.items()
    }


def next_epoch(epoch: int) -> int:
    """Epoch after one of a session; it wraps to 1, since 0 asks for a new session."""
    assert epoch >= INITIAL_EPOCH, f"{epoch=}"
    return 1 if epoch == EPOCH_MAX else epoch + 1


class FetchSessionCache:
    """The sessions of a broker, at most `slots` of them."""

    def __init__(self, slots: int, rng: Rng, eviction_ms: int = EVICTION_MS_MIN) -> None:
        self._slots = slots
        self._rng = rng
        self._eviction_ms = eviction_ms
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # least recently used first
        self._evictable_by_all: list[_EvictionKey] = []  # sorted, as the next
        self._evictable_by_privileged: list[_EvictionKey] = []
        self.partition_count = 0
        self.eviction_count = 0

    def __len__(self) -> int:
        """Number of sessions."""
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        """The session of an id."""
        return self._sessions.get(session_id)

    def make_room(self, *, is_privileged: bool, size: int, now_ms: int) -> bool:
        """Evict a session if all slots are taken; False if none may go for one of this size.

        The least recently used session goes if it is stale. Otherwise the least valuable one goes
        if it is worth less than the new one: followers before consumers, then more partitions. A
        session that is not older than the eviction time goes only if a follower replaces a
        consumer.
        """
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > self._eviction_ms:
            self._evict(oldest)
            return True
        keys = self._evictable_by_privileged if is_privileged else self._evictable_by_all
        if not keys or (is_privileged, size, NO_SESSION_ID) < keys[0]:
            return False
        self._evict(self._sessions[keys[0][2]])
        return True

    def add(
        self,
        partitions: dict[PartitionKey, SessionPartition],
        *,
        is_privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchSession:
        """Make a session under a new random id; there must be room."""
        assert len(self._sessions) < self._slots, f"{len(self._sessions)=} {self._slots=}"
        session = FetchSession(
            self._new_id(),
            partitions,
            is_privileged=is_privileged,
            uses_topic_ids=uses_topic_ids,
            now_ms=now_ms,
        )
        self._sessions[session.id] = session
        self._rank(session)
        return session

    def touch(self, session: FetchSession, now_ms: int) -> None:
        """Note a use of the session, which may have changed its size."""
        assert session.id in self._sessions, f"{session.id=}"
        assert now_ms >= session.last_used_ms, f"{now_ms=} {session.last_used_ms=}"
        self._sessions.move_to_end(session.id)
        session.last_used_ms = now_ms
        is_old = now_ms - session.creation_ms > self._eviction_ms
        size = len(session.partitions)
        if size != session.cached_size or is_old is not session.is_old:
            self._unrank(session)
            session.cached_size, session.is_old = size, is_old
            self._rank(session)

    def remove(self, session: FetchSession) -> None:
        """Close a session."""
        assert self._sessions.get(session.id) is session, f"{session.id=}"
        del self._sessions[session.id]
        self._unrank(session)

    def _new_id(self) -> int:
        session_id = NO_SESSION_ID
        while session_id == NO_SESSION_ID or session_id in self._sessions:
            session_id = 1 + self._rng.randrange(SESSION_IDS)
        return session_id

    def _evict(self, session: FetchSession) -> None:
        self.remove(session)
        self.eviction_count += 1

    def _rank(self, session: FetchSession) -> None:
        self.partition_count += session.cached_size
        for keys in self._ranks(session):
            insort(keys, session.eviction_key())

    def _unrank(self, session: FetchSession) -> None:
        self.partition_count -= session.cached_size
        assert self.partition_count >= 0, f"{self.partition_count=}"
        key = session.eviction_key()
        for keys in self._ranks(session):
            index = bisect_left(keys, key)
            assert keys[index] == key, f"{keys[index]=} {key=}"
            del keys[index]

    def _ranks(self, session: FetchSession) -> Iterable[list[_EvictionKey]]:
        """The lists that the session stands in."""
        if session.is_old:
            return self._evictable_by_all, self._evictable_by_privileged
        return () if session.is_privileged else (self._evictable_by_privileged,)


class SessionError:
    """The context of a request that names no session, another epoch, or topics in another way."""

    __slots__ = ("code",)

    def __init__(self, code: ErrorCode) -> None:
        self.code = code

    def begin(self, basis: Basis | None, now_ms: int) -> QuietPartitions | None:
        """None: no partition is passed by."""
        del basis, now_ms
        return None

    def partitions(self) -> Sequence[SessionPartition]:
        """None: what the session holds is unknown."""
        return ()

    def preview(self, rows: Sequence[FetchedPartition]) -> Sequence[FetchedPartition]:
        """The rows that `respond` would send, which stay unsent: quotas measure them."""
        assert not rows, "a session error reads no partition"
        return ()

    def respond(self, rows: Sequence[FetchedPartition], _now_ms: int) -> SessionResponse:
        """The response with the error."""
        return SessionResponse(self.code, NO_SESSION_ID, self.preview(rows))

    def throttled(self) -> SessionResponse:
        """The response of a request that a quota delays."""
        return SessionResponse(ErrorCode.none, NO_SESSION_ID)


class FullFetch:
    """The context of a full fetch; with a cache it tries to make a session of what it answers."""

    __slots__ = ("_cache", "_is_privileged", "_partitions", "_uses_topic_ids")

    def __init__(
        self,
        request: FetchSessionRequest,
        topic_name: TopicName,
        cache: FetchSessionCache | None,
    ) -> None:
        self._cache = cache
        self._is_privileged = request.is_from_follower
        self._uses_topic_ids = request.version >= TOPIC_ID_VERSION
        self._partitions = (
            prepare(request.partitions, topic_name)
            if request.prepared is None
            else request.prepared
        )

    def begin(self, basis: Basis | None, now_ms: int) -> QuietPartitions | None:
        """None: a full fetch reads all partitions."""
        del basis, now_ms
        return None

    def partitions(self) -> Sequence[SessionPartition]:
        """The partitions to read, in order."""
        return list(self._partitions.values())

    def preview(self, rows: Sequence[FetchedPartition]) -> Sequence[FetchedPartition]:
        """The rows that `respond` would send: all."""
        return rows

    def respond(self, rows: Sequence[FetchedPartition], now_ms: int) -> SessionResponse:
        """The response, which opens a session of its rows if there is room."""
        cache, session_id = self._cache, NO_SESSION_ID
        if cache is not None and cache.make_room(
            is_privileged=self._is_privileged, size=len(rows), now_ms=now_ms
        ):
            session_id = cache.add(
                self._noted(rows),
                is_privileged=self._is_privileged,
                uses_topic_ids=self._uses_topic_ids,
                now_ms=now_ms,
            ).id
        return SessionResponse(ErrorCode.none, session_id, rows)

    def throttled(self) -> SessionResponse:
        """The response of a request that a quota delays: no session."""
        return SessionResponse(ErrorCode.none, NO_SESSION_ID)

    def _noted(self, rows: Sequence[FetchedPartition]) -> dict[PartitionKey, SessionPartition]:
        noted = {}
        for row in rows:
            key = (row.topic, row.partition)
            assert key not in noted, f"two rows of {key=}"
            noted[key] = self._partitions[key]
            noted[key].note(row)
        return noted


class IncrementalFetch:
    """The context of an incremental fetch."""

    __slots__ = ("_expected_epoch", "_partitions", "_session", "_topic_name")

    def __init__(self, session: FetchSession, topic_name: TopicName) -> None:
        self._session = session
        self._partitions = session.partitions
        self._expected_epoch = session.epoch
        self._topic_name = topic_name

    def begin(self, basis: Basis | None, now_ms: int) -> QuietPartitions | None:
        """The partitions that a follower's request passes by; None of a consumer's session.

        Args:
            basis: of the request; None if it may pass none by.
            now_ms: instant of the request.
        """
        return self._session.begin(basis, now_ms)

    def partitions(self) -> Sequence[SessionPartition]:
        """The partitions to read, those first that have waited longest for records."""
        partitions = self._session.looked_at()
        for partition in partitions:
            if partition.topic_name is None:
                partition.topic_name = _name(partition.key, self._topic_name)
        return partitions

    def preview(self, rows: Sequence[FetchedPartition]) -> Sequence[FetchedPartition]:
        """The rows that `respond` would send, with no change of the session."""
        if self._is_overtaken():
            return ()
        partitions = self._partitions
        return [
            row
            for row in rows
            if (known := partitions[row.topic, row.partition]).untold is not row
            and known.is_changed(row)
        ]

    def respond(self, rows: Sequence[FetchedPartition], _now_ms: int) -> SessionResponse:
        """The response with the rows that changed."""
        session = self._session
        if self._is_overtaken():
            return SessionResponse(ErrorCode.invalid_fetch_session_epoch, session.id)
        changed = self.preview(rows)
        for row in changed:
            session.note(row)
        return SessionResponse(ErrorCode.none, session.id, changed)

    def throttled(self) -> SessionResponse:
        """The response of a request that a quota delays: the session has no rows of it."""
        code = ErrorCode.invalid_fetch_session_epoch if self._is_overtaken() else ErrorCode.none
        return SessionResponse(code, self._session.id)

    def _is_overtaken(self) -> bool:
        """True if another request of the session arrived since: a duplicate of this one."""
        return self._session.epoch != self._expected_epoch


FetchContext = SessionError | FullFetch | IncrementalFetch


class FetchManager:
    """The context of each Fetch, by its session."""

    def __init__(self, cache: FetchSessionCache) -> None:
        self._cache = cache

    def new_context(
        self, request: FetchSessionRequest, topic_name: TopicName, now_ms: int
    ) -> FetchContext:
        """Find, update or close the session of a request.

        The error of the context is FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
        FETCH_SESSION_TOPIC_ID_ERROR; the session stays as it is.
        """
        cache = self._cache
        session = cache.get(request.session_id)
        if request.epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session is not None:
                cache.remove(session)
            wants_session = request.epoch == INITIAL_EPOCH
            return FullFetch(request, topic_name, cache if wants_session else None)
        if session is None:
            return SessionError(ErrorCode.fetch_session_id_not_found)
        if request.epoch != session.epoch:
            return SessionError(ErrorCode.invalid_fetch_session_epoch)
        if session.uses_topic_ids is not (request.version >= TOPIC_ID_VERSION):
            return SessionError(ErrorCode.fetch_session_topic_id_error)
        session.update(request, topic_name)
        session.epoch = next_epoch(session.epoch)  # who waits for an answer is overtaken
        if not session.partitions:
            cache.remove(session)
            return FullFetch(request, topic_name, None)
        cache.touch(session, now_ms)
        return IncrementalFetch(session, topic_name)


def _name(key: PartitionKey, topic_name: TopicName) -> str | None:
    topic = key[0]
    return topic if isinstance(topic, str) else topic_name(topic)
