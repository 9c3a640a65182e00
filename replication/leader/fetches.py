"""The Fetch requests of a broker: read at once, parked, read again; in pieces where they are large.

A Fetch whose wait ends by an event is answered when the broker goes on, behind the event.

apache/kafka: core/.../server/ReplicaManager.scala (fetchMessages)
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from network.clock import Clock
from network.turn_budget import TurnBudget
from replication.counters import Counters
from replication.leader.delayed_fetch import DelayedFetch, FetchStatus, is_answered_at_once
from replication.leader.fetch_params import FetchParams
from replication.leader.fetching import (
    PartitionOf,
    PartitionRead,
    ReadFrom,
    ReadRules,
    WantedPartition,
    close_records,
    read_partitions,
)
from replication.leader.isr import committed_isr
from replication.leader.leadership import UNCHANGED, Changed, Leadership
from replication.leader.purgatory import Attempt, Watched
from replication.leader.quiet_partitions import QuietPartitions
from replication.leader.quiet_reads import note_fetch
from replication.leader.waiting import Waiting, Withdraw
from storage.logs.unified_log import FetchIsolation
from wire.errors import ErrorCode
from wire.steps import Steps
from wire.types import NodeId, TopicIdPartition

READ_PIECE: Final = 16
"""Partitions that are read in one piece."""
READ_UNITS: Final = 18
"""Cost of a partition that is read, and watched."""

Reads = Sequence[PartitionRead]
AnswerFetch = Callable[[Reads], None]
"""Function that takes the reads with their records: it sends or closes each."""
ResumeFetch = Callable[[Steps[Reads]], None]
"""Function that takes the reads behind a wait, which it makes in pieces; then as above."""


class _Fetch(msgspec.Struct, frozen=True):
    wanted: Sequence[WantedPartition]
    max_bytes: int
    answer: AnswerFetch | None = None
    resume: ResumeFetch | None = None
    """The one or the other."""


ParkedFetch = Watched[TopicIdPartition, DelayedFetch[_Fetch]]


class Fetches:
    """The fetches, those that wait among them.

    Args:
        clock: of the broker.
        budget: of the turn.
        partition_of: a partition of this broker, or why there is none.
        took: called with what a read did to a partition.
        on_failure: called with the partition at which a log directory failed, and the error.
        counters: raised here.
        rules: of reads.
    """

    def __init__(
        self,
        clock: Clock,
        budget: TurnBudget,
        partition_of: PartitionOf,
        took: Callable[[TopicIdPartition, Changed], None],
        *,
        on_failure: Callable[[TopicIdPartition, Exception], None],
        counters: Counters,
        rules: ReadRules,
    ) -> None:
        self._clock = clock
        self._partition_of = partition_of
        self._took = took
        self._on_failure = on_failure
        self._counters = counters
        self._quota = rules.quota
        self._read_from = ReadFrom(partition_of, rules.selector, self.is_throttled)
        self._budget = budget
        self._completed: deque[DelayedFetch[_Fetch]] = deque()
        self.waiting = Waiting(clock, self._end, self._completed)
        self._holders: dict[TopicIdPartition, dict[NodeId, QuietPartitions]] = {}
        """By partition and follower: whose requests pass it by, or have."""

    @property
    def is_busy(self) -> bool:
        """True if fetches whose wait is over are not answered."""
        return bool(self._completed)

    def go_on(self) -> None:
        """Answer some of them; the first answer leaves before the others are read.

        Behind an append the followers work at the same time: the first while the second is read
        for, instead of both behind that.
        """
        completed, budget = self._completed, self._budget
        while completed and budget.has_room:
            fetch = completed.popleft()
            if fetch.request.resume is None:  # otherwise its pieces spend what they cost
                budget.spend(len(fetch.request.wanted) * READ_UNITS)
            self._end(fetch)
            if completed:
                budget.pause()

    def fetch(
        self,
        params: FetchParams,
        wanted: Sequence[WantedPartition],
        *,
        max_bytes: int,
        answer: AnswerFetch,
        quiet: QuietPartitions | None = None,
    ) -> Withdraw | None:
        """Read partitions; with too few records wait for more. None if that is answered.

        Args:
            params: of the request.
            wanted: its partitions, in the order in which they are read.
            max_bytes: of all records, unless the first batch is larger.
            answer: called once; it has the reads and their records.
            quiet: of the follower's session: partitions that `wanted` leaves out.
        """
        self._counters.read(wanted)
        withdraw = None
        reads = self._read(params, wanted, max_bytes, updates_replicas=True, quiet=quiet)
        rows = [read.row for read in reads]
        if is_answered_at_once(params, rows, passes_by=_passes_by(quiet)):
            answer(reads)
        else:
            close_records(reads)
            fetch = DelayedFetch(
                _Fetch(wanted, max_bytes, answer),
                params,
                {},
                self._partition_of,
                self.is_throttled,
            )
            fetch.add(*_divided(params, reads))
            keys = [each.key for each in wanted]
            withdraw = self._park(fetch, keys, quiet)
        for read in reads:
            if read.changed is not UNCHANGED:
                self._took(read.wanted.key, read.changed)
        return withdraw

    def fetch_in_steps(
        self,
        params: FetchParams,
        wanted: Sequence[WantedPartition],
        *,
        max_bytes: int,
        park: Callable[[Withdraw | None], None],
        resume: ResumeFetch,
        quiet: QuietPartitions | None = None,
    ) -> Steps[Reads | None]:
        """As `fetch`, in pieces: the reads to answer with; None for a request that waits.

        A piece is watched as it is read, so that nothing which happens behind it is missed.

        Args:
            params: of the request.
            wanted: its partitions, in the order in which they are read.
            max_bytes: of all records, unless the first batch is larger.
            park: called with what ends the wait, None if it is over.
            resume: called once behind a wait, with the reads to answer with.
            quiet: as `fetch` takes it.
        """
        self._counters.read(wanted)
        reads: list[PartitionRead] = []
        records_bytes, is_at_once = 0, not (wanted or _passes_by(quiet))
        request = _Fetch(wanted, max_bytes, resume=resume)
        fetch = DelayedFetch(request, params, {}, self._partition_of, self.is_throttled)
        watched = self.waiting.open(fetch)
        if quiet is not None:
            quiet.parked = watched
            self._catch_up(watched, quiet.missed)
        for some in _pieces(wanted):
            new = self._read(
                params,
                some,
                max(0, max_bytes - records_bytes),
                updates_replicas=True,
                at_least_one=records_bytes == 0,
                quiet=quiet if quiet is None or quiet.parked is watched else None,
            )
            reads += new
            rows = [read.row for read in new]
            is_at_once = is_at_once or is_answered_at_once(params, rows, records_bytes)
            records_bytes += sum(row.records_bytes for row in rows)
            if not is_at_once:
                fetch.add(*_divided(params, new))
                self.waiting.watch(watched, [each.key for each in some])
            for read in new:
                if read.changed is not UNCHANGED:
                    self._took(read.wanted.key, read.changed)
            yield len(new) * READ_UNITS
        if is_at_once:
            self.waiting.cancel(watched)
            return reads
        close_records(reads)
        park(self.waiting.close(watched, params.max_wait_ms, is_extended=quiet is not None))
        return None

    # -- partitions that requests of a session pass by --------------------------------------------

    def _park(
        self,
        fetch: DelayedFetch[_Fetch],
        keys: Sequence[TopicIdPartition],
        quiet: QuietPartitions | None,
    ) -> Withdraw | None:
        wait_ms = fetch.params.max_wait_ms
        if quiet is None:
            return self.waiting.add(fetch, keys, wait_ms)
        quiet.parked = watched = self.waiting.add_extended(fetch, keys, wait_ms)
        return None if watched is None else partial(self.waiting.cancel, watched)

    def check(
        self, key: TopicIdPartition, attempt: Attempt[DelayedFetch[_Fetch]] | None = None
    ) -> None:
        """Try those that wait for a partition, or that pass it by, as `Waiting.check` does."""
        self._release(key)
        self.waiting.check(key, attempt)

    def check_all(self, keys: Sequence[TopicIdPartition]) -> None:
        """As `check`, of the partitions of one image."""
        for key in keys:
            self._release(key)
        self.waiting.check_all(keys)

    def _release(self, key: TopicIdPartition) -> None:
        """Let requests look at a partition to which something has happened, the parked ones too."""
        for replica_id, quiet in self._holders.pop(key, {}).items():
            held = quiet.release(key)
            if held is None:
                continue
            partition = self._partition_of(key)
            if not isinstance(partition, ErrorCode) and isinstance(partition.role, Leadership):
                note_fetch(partition.role, replica_id, quiet.last_fetch_ms)
            if quiet.parked is None:
                quiet.missed.append(held.read)
                continue
            fetch = self.waiting.extend(quiet.parked, key)
            if fetch is not None:
                fetch.hold(held.read)

    def _catch_up(self, watched: ParkedFetch, missed: Reads) -> None:
        """Let a request take what happened since it began to partitions that it passes by."""
        for read in missed:
            key = read.wanted.key
            fetch = self.waiting.extend(watched, key)
            if fetch is not None:
                fetch.hold(read)
                self.waiting.watch(watched, (key,))

    def _hold(self, params: FetchParams, quiet: QuietPartitions, repeated: Reads) -> None:
        """Let requests pass by partitions whose reads are repeated, until something happens."""
        replica_id, basis = params.replica_id, quiet.basis
        assert replica_id is not None, "a consumer's read is not repeated"
        for read in repeated:
            if basis is None or basis.replica_id != replica_id:
                break  # a request of somebody else has begun in the session since
            if quiet.hold(read):
                key = read.wanted.key
                holders = self._holders.setdefault(key, {})
                before = holders.get(replica_id, quiet)
                if before is not quiet:
                    before.release(key)
                holders[replica_id] = quiet
        for topic_id, count in quiet.passed.items():
            self._counters.passed_by(topic_id, count)
        quiet.passed.clear()

    def _end(self, fetch: DelayedFetch[_Fetch]) -> None:
        """Answer a Fetch; a partition at whose log end nothing happened is not read again."""
        request, held = fetch.request, fetch.held if fetch.is_complete else {}
        all_wanted = [*request.wanted, *fetch.added]
        if request.resume is not None:
            steps = self._read_in_steps(fetch.params, all_wanted, request.max_bytes, held)
            request.resume(steps)
            return
        assert request.answer is not None, "it is answered, or goes on in pieces"
        wanted = [each for each in all_wanted if each.key not in held]
        again = iter(self._read(fetch.params, wanted, request.max_bytes, updates_replicas=False))
        request.answer([held[each.key] if each.key in held else next(again) for each in all_wanted])

    def _read_in_steps(
        self,
        params: FetchParams,
        all_wanted: Sequence[WantedPartition],
        max_bytes: int,
        held: Mapping[TopicIdPartition, PartitionRead],
    ) -> Steps[Reads]:
        """Read again in pieces what is not held."""
        reads: list[PartitionRead] = []
        records_bytes = 0
        for some in _pieces(all_wanted):
            wanted = [each for each in some if each.key not in held]
            new = self._read(
                params,
                wanted,
                max(0, max_bytes - records_bytes),
                updates_replicas=False,
                at_least_one=records_bytes == 0,
            )
            records_bytes += sum(read.row.records_bytes for read in new)
            again = iter(new)
            reads += [held.get(each.key) or next(again) for each in some]
            yield len(some) + len(new) * READ_UNITS
        return reads

    def _read(
        self,
        params: FetchParams,
        wanted: Sequence[WantedPartition],
        max_bytes: int,
        *,
        updates_replicas: bool,
        at_least_one: bool = True,
        quiet: QuietPartitions | None = None,
    ) -> list[PartitionRead]:
        repeated: list[PartitionRead] = []
        reads = read_partitions(
            self._read_from,
            params,
            wanted,
            max_bytes=max_bytes,
            now_ms=self._clock.now_ms,
            updates_replicas=updates_replicas,
            at_least_one=at_least_one,
            repeated=repeated,
        )
        if quiet is not None and params.replica_id is not None:
            self._hold(params, quiet, repeated)
        for read in reads:
            if read.failure is not None:
                self._on_failure(read.wanted.key, read.failure)
            if read.row.code is ErrorCode.corrupt_message:
                self._counters.failed_read(read.wanted.key[0])
        return reads

    def is_throttled(self, partition: TopicIdPartition, replica_id: NodeId) -> bool:
        """True if a follower that is not in sync gets no records: the quota is used up."""
        quota = self._quota
        if not (quota.is_throttled(partition) and quota.is_exceeded):
            return False
        found = self._partition_of(partition)
        leader = found if isinstance(found, ErrorCode) else found.leadership
        return isinstance(leader, ErrorCode) or replica_id not in committed_isr(leader.state)


def _passes_by(quiet: QuietPartitions | None) -> bool:
    return quiet is not None and bool(quiet.held)


def _divided(
    params: FetchParams, reads: Reads
) -> tuple[
    dict[TopicIdPartition, FetchStatus],
    dict[TopicIdPartition, PartitionRead],
    dict[TopicIdPartition, PartitionRead],
]:
    """Divide reads: those to do again, those that a follower need not do again, at ends of logs.

    Last those at the end of what the request may read, of either: there is nothing to look for.
    """
    at_end = {read.wanted.key: read for read in reads if _is_at_end(params.isolation, read)}
    held = {} if params.replica_id is None else at_end
    statuses = {
        read.wanted.key: FetchStatus(read.start, read.wanted.request)
        for read in reads
        if read.wanted.key not in held
    }
    return statuses, held, at_end


def _is_at_end(isolation: FetchIsolation, read: PartitionRead) -> bool:
    """True if nothing more may be read, as the read itself has seen."""
    if isolation is FetchIsolation.LOG_END or read.start is None:
        return read.is_at_end
    row = read.row
    is_committed = isolation is FetchIsolation.TXN_COMMITTED
    return read.start.offset == (row.last_stable_offset if is_committed else row.high_watermark)


def _pieces(wanted: Sequence[WantedPartition]) -> Iterable[Sequence[WantedPartition]]:
    for start in range(0, len(wanted), READ_PIECE):
        yield wanted[start : start + READ_PIECE]
