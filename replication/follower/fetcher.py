"""The fetcher of a follower: replicates partitions from one leader, one Fetch in flight at a time.

Each partition is ready, delayed after an error for `replica.fetch.backoff.ms`, or asking the leader
for the ends of its log. Only ready ones are fetched, and while the replication quota is used up
only those of them that it does not throttle, or that do not lag. An answer for a partition that has
changed in the meantime is ignored. Responses are taken in slices, as the budget of a turn has room;
the request is in flight until the last, and the answer for a partition that changes between two is
ignored from there on. So are all partitions delayed where a request has no usable response. One
that cannot be replicated at all has failed: it leaves the fetcher, until metadata with another
leader epoch assign it again.

                      .--- error ---> delayed --- time ---.
    assigned ---> ready <---------------------------------'
                      '--- OFFSET_OUT_OF_RANGE ---> asking ---> ready, its log truncated

    INV-RF-1  a ready partition is fetched from the end of its log

apache/kafka: core/.../server/{AbstractFetcherThread,ReplicaFetcherThread}.scala (4.x, where
leaders answer diverging epochs)
"""

from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, TypeVar

from network.effects import Log, LogLevel
from replication.follower import costs
from replication.follower.fetch_state import FetchState, OffsetQuestion
from replication.follower.fetched_rows import FetchedRow, FetchedRows
from replication.follower.follower_broker import FollowerBroker
from replication.follower.follower_session import FollowerSession, Verdict
from replication.follower.following import FetchedFromLeader
from replication.partition import Partition
from replication.reading import EARLIEST, LATEST
from storage.errors import FsyncError, OutOfSpaceError
from storage.logs.append_info import UnexpectedOffsetError
from storage.logs.unified_log import UnifiedLog
from storage.producers.producer_state import ProducerStateError
from wire.errors import CorruptBatchError, ErrorCode, RemoteProtocolError
from wire.messages.replica_fetch import (
    ReplicaFetchedPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchRow,
)
from wire.types import LeaderEpoch, Offset, TopicIdPartition

_DISK_ERRORS: Final = (OSError, OutOfSpaceError, FsyncError)
_UNUSABLE: Final = (UnexpectedOffsetError, ProducerStateError)
"""Errors of records that no repetition mends."""
_T = TypeVar("_T")


class Fetcher:
    """The fetcher of one number and leader.

    Args:
        broker: this one.
        failed: partitions that have failed are added to it, with the reason.
    """

    def __init__(self, broker: FollowerBroker, failed: dict[TopicIdPartition, str]) -> None:
        self._broker = broker
        self._quota = broker.quota
        self._config = broker.config
        self._clock = broker.clock
        self._effects = broker.effects
        self._budget = broker.budget
        self._failed = failed
        self.session = FollowerSession()
        self._states: dict[TopicIdPartition, FetchState] = {}
        self._delayed: dict[TopicIdPartition, FetchState] = {}
        """In the order in which the delays end, which are all as long."""
        self._throttled: dict[TopicIdPartition, FetchState] = {}
        """Ready ones that the last request did not fetch because of the quota."""
        self._throttled_until_ms = 0
        self._questions: list[OffsetQuestion] = []
        self._is_in_flight = False
        self._is_answered = False
        """True from the response to the request in flight, or its absence, until all is taken."""
        self._replaying: deque[FetchState] = deque()
        """Those whose log was truncated, and whose producers are not those of its end yet."""
        self._rows = FetchedRows()
        """Of the response to the request in flight."""
        self._to_delay: deque[FetchState] = deque()
        """Those of a request in flight that has no usable response."""

    @property
    def is_idle(self) -> bool:
        """True without partitions and without a request in flight."""
        return not self._states and not self._is_in_flight

    @property
    def is_taking(self) -> bool:
        """True if a part of a response, or of its absence, is not taken, or producers of a log."""
        return bool(self._rows) or bool(self._to_delay) or bool(self._replaying)

    def lag(self, key: TopicIdPartition) -> int | None:
        """Lag of one partition; None before the first answer, or if it is not fetched here."""
        state = self._states.get(key)
        return None if state is None else state.lag

    @property
    def lag_max(self) -> int:
        """The largest of the lags; 0 without one."""
        return max((state.lag or 0 for state in self._states.values()), default=0)

    # -- partitions -----------------------------------------------------------------------------

    def assign(self, key: TopicIdPartition, topic_name: str, leader_epoch: LeaderEpoch) -> None:
        """Fetch a partition from the end of its log; nothing changes in the same leader epoch.

        What of the log cannot be compared with the leader's goes before.
        """
        known = self._states.get(key)
        if known is not None and known.leader_epoch == leader_epoch:
            return
        self.remove(key)
        state = self._states[key] = FetchState(key, topic_name, leader_epoch)
        partition = self._broker.partition_of(key)
        if partition is None or partition.log is None:
            self._fail(state, "it has no log")
            return
        unproven = partition.unproven_offset
        if unproven is not None:
            self._truncate(state, unproven)
        else:
            self._continue(state, partition.log)

    def remove(self, key: TopicIdPartition) -> None:
        """Fetch a partition no more; what is in flight for it will be ignored."""
        if self._states.pop(key, None) is not None:
            self._delayed.pop(key, None)
            self._throttled.pop(key, None)
            self.session.leave_out(key)

    def _continue(self, state: FetchState, log: UnifiedLog) -> None:
        """Let a partition be fetched from the end of its log."""
        state.is_asking, state.is_replaying, state.leader_end_offset = False, False, None
        state.fetch_offset = Offset(log.end_offset)
        epoch = log.last_epoch
        state.last_fetched_epoch = None if epoch is None else LeaderEpoch(epoch)
        row = ReplicaFetchRow(
            fetch_offset=state.fetch_offset,
            current_leader_epoch=state.leader_epoch,
            last_fetched_epoch=state.last_fetched_epoch,
            log_start_offset=Offset(log.log_start_offset),
            max_bytes=self._config.bytes_max,
        )
        self.session.want(state.key, row)

    def _delay(self, state: FetchState) -> None:
        """Leave a partition out for the back-off; a delay is not prolonged."""
        state.is_asking, state.is_replaying, state.leader_end_offset = False, False, None
        self._throttled.pop(state.key, None)
        self.session.leave_out(state.key)
        if state.delayed_until_ms is None:
            state.delayed_until_ms = self._clock.now_ms + self._config.backoff_ms
            self._delayed[state.key] = state

    def _fail(self, state: FetchState, reason: str, level: LogLevel = LogLevel.ERROR) -> None:
        self.remove(state.key)
        self._failed[state.key] = reason
        self._log(level, "replica_failed", state, reason=reason)

    def _log(self, level: LogLevel, event: str, state: FetchState, **fields: object) -> None:
        where = {"topic": state.topic_name, "partition": state.key[1]}
        epoch = {"leader_epoch": state.leader_epoch, "fetch_offset": state.fetch_offset}
        self._effects.append(Log(level, event, where | epoch | fields))

    def _log_of(self, state: FetchState) -> UnifiedLog | None:
        """The log of a partition that is still here."""
        partition = self._broker.partition_of(state.key)
        return None if partition is None else partition.log

    # -- requests -------------------------------------------------------------------------------

    def next_ms(self) -> int | None:
        """Time of the next request; None while one is in flight, and without partitions."""
        if self._is_in_flight:
            return None
        if self.session.has_request or self._questions:
            return self._clock.now_ms
        times = [self._throttled_until_ms] if self._throttled else []
        delays = (each.delayed_until_ms for each in islice(self._delayed.values(), 1))
        times += [due_ms for due_ms in delays if due_ms is not None]
        return min(times, default=None)

    def next_request(self) -> ReplicaFetchRequest | None:
        """The Fetch to send now, if any; it is in flight from here on."""
        if self._is_in_flight:
            return None
        if not self._end_delays():
            return None
        self._throttle()
        if not self.session.has_request:
            return None
        self._is_in_flight = True
        return self._broker.fetch_request(self.session.next_request())

    def _end_delays(self) -> bool:
        """End delays that are over, as far as the budget has room; True if no other is over.

        A Fetch that left with the first would keep the others waiting.
        """
        if not self._delayed:  # as before most requests
            return True
        now_ms = self._clock.now_ms
        count = max(costs.ENDS_MIN, self._budget.left // costs.END_UNITS)
        for state in list(islice(self._delayed.values(), count + 1)):
            assert state.delayed_until_ms is not None, f"{state.key=} is not delayed"
            if state.delayed_until_ms > now_ms:
                return True
            if not count:
                return False
            count -= 1
            self._budget.spend(costs.END_UNITS)
            del self._delayed[state.key]
            state.delayed_until_ms = None
            log = self._log_of(state)
            if log is None:
                self._fail(state, "it has no log")
            else:
                self._continue(state, log)
        return True

    def _throttle(self) -> None:
        """Leave partitions that lag out of the next request if their quota is used up.

        All are looked at before each request, and after the back-off if there is none.
        """
        before = self._throttled
        self._throttled = {}
        for state in before.values():
            log = self._log_of(state)
            if log is not None:
                self._continue(state, log)
        if not (self._quota.is_used and self._quota.is_exceeded):
            return
        for key, state in self._states.items():
            if state.is_ready and state.lag != 0 and self._quota.is_throttled(key):
                self._throttled[key] = state
                self.session.leave_out(key)
        self._throttled_until_ms = self._clock.now_ms + self._config.backoff_ms

    def take_questions(self) -> list[OffsetQuestion]:
        """The ListOffsets to send now, before the next Fetch, behind which they would wait."""
        questions, self._questions = self._questions, []
        return questions

    # -- responses ------------------------------------------------------------------------------

    def on_failure(self) -> None:
        """The request in flight has no response: all partitions wait."""
        assert self._is_in_flight, "no request is in flight"
        assert not self._is_answered, "it has a response"
        self._is_answered = True
        self.session.on_failure()
        self._to_delay.extend(self._states.values())
        self.go_on()

    def on_response(self, response: ReplicaFetchResponse) -> None:
        """Begin to take the response to the request in flight, as far as the budget has room."""
        assert self._is_in_flight, "no request is in flight"
        assert not self._is_answered, "it has one response"
        self._is_answered = True
        verdict = self.session.on_response(response)
        if verdict is Verdict.TAKEN:
            self._rows = FetchedRows(response.partitions)
        elif verdict is Verdict.REFUSED:
            fields = {"code": response.code.name, "partitions": len(self._states)}
            self._effects.append(Log(LogLevel.WARN, "replica_fetch_refused", fields))
            self._to_delay.extend(self._states.values())
        self.go_on()

    def go_on(self) -> None:
        """Take slices of rows while the budget has room; the last one ends the request."""
        rows, budget = self._rows, self._budget
        while self._to_delay and budget.has_room:
            state = self._to_delay.popleft()
            budget.spend(costs.DELAY_UNITS)
            if self._states.get(state.key) is state and not state.is_busy:
                self._delay(state)
        while rows and budget.has_room:
            if not self._takes(rows.first):
                rows.leave_first()
        while self._replaying and budget.has_room:
            self._replay(self._replaying[0])
        if self._is_answered and not rows and not self._to_delay:
            self._is_answered = self._is_in_flight = False

    def _takes(self, row: FetchedRow) -> bool:
        """Take a slice of a row; True if there is another."""
        fetched = row.fetched
        state = self._states.get(fetched.key)
        requested = self.session.sent_row(fetched.key)
        if state is None or requested is None or not state.is_ready:
            self._budget.spend(1)
            return False
        offset = requested.fetch_offset if row.next_offset is None else row.next_offset
        is_current = requested.current_leader_epoch == state.leader_epoch
        if offset != state.fetch_offset or not is_current:
            self._budget.spend(1)
            return False
        if fetched.code is not ErrorCode.none:
            self._budget.spend(costs.ROW_UNITS)
            self._take_error(state, fetched.code)
            return False
        records, units = row.next_slice(self._budget.left)
        self._budget.spend(units)
        row.next_offset = self._take_records(state, fetched, records)
        return row.next_offset is not None and not row.is_taken

    def _take_error(self, state: FetchState, code: ErrorCode) -> None:
        """Handle a partition that the leader did not read.

        FENCED_LEADER_EPOCH: another leader epoch has begun, of which metadata will tell. All others
        may pass, such as those of a topic that the leader does not know yet.
        """
        if code is ErrorCode.offset_out_of_range:
            self.session.leave_out(state.key)
            state.is_asking = True
            self._ask(state, LATEST)
        elif code is ErrorCode.fenced_leader_epoch:
            self._fail(state, "the leader has a later epoch", LogLevel.INFO)
        else:
            self._log(LogLevel.INFO, "replica_fetch_delayed", state, code=code.name)
            self._delay(state)

    def _take_records(
        self, state: FetchState, fetched: ReplicaFetchedPartition, records: memoryview
    ) -> int | None:
        """Append or truncate; errors of the disk and of records end the replication.

        Returns:
            The end of the log, where the next slice of the row goes; None if none may follow.
        """
        if fetched.diverging_epoch is None:
            return self._attempt(state, lambda: self._append(state, fetched, records))
        self._attempt(state, lambda: self._truncate_to_leader(state, fetched))
        return None

    def _attempt(self, state: FetchState, step: Callable[[], _T]) -> _T | None:
        """Do what the log of a partition may refuse; None if it does."""
        try:
            return step()
        except (CorruptBatchError, RemoteProtocolError) as error:
            self._log(LogLevel.ERROR, "replica_fetch_invalid", state, reason=str(error))
            self._delay(state)
        except _DISK_ERRORS as error:
            self._fail(state, str(error))
            self._broker.disk_failed(state.key, error)
        except _UNUSABLE as error:
            self._fail(state, str(error))
        return None

    def _append(
        self, state: FetchState, fetched: ReplicaFetchedPartition, records: memoryview
    ) -> int | None:
        partition = self._broker.partition_of(state.key)
        if partition is None or partition.log is None:
            self._fail(state, "it has no log")
            return None
        log = partition.log
        if log.end_offset != state.fetch_offset:  # INV-RF-1
            self._fail(state, f"its log ends at {log.end_offset}")
            return None
        row = FetchedFromLeader(
            records=records,
            high_watermark=fetched.high_watermark,
            log_start_offset=fetched.log_start_offset,
        )
        appended = partition.append_as_follower(row, state.leader_epoch, self._clock.wall_ms)
        if isinstance(appended, ErrorCode):
            self._fail(state, appended.name)
            return None
        self._broker.replicated(state.key, len(records))
        is_stuck = len(records) > 0 and appended.end_offset == state.fetch_offset
        state.lag = max(0, fetched.high_watermark - appended.end_offset)
        self._continue(state, log)
        if is_stuck:
            self._log(LogLevel.ERROR, "replica_fetch_invalid", state, reason=appended.stopped)
            self._delay(state)
        self._broker.took(state.key, appended.high_watermark_raised)
        return appended.end_offset if appended.stopped is None else None

    # -- truncation -----------------------------------------------------------------------------

    def _truncate_to_leader(self, state: FetchState, fetched: ReplicaFetchedPartition) -> None:
        """Truncate by a diverging epoch; the high watermark beside it is taken with the next."""
        diverging, epoch = fetched.diverging_epoch, state.leader_epoch
        assert diverging is not None, f"{fetched=}"
        fields = {"diverging_epoch": diverging.epoch, "diverging_end": diverging.offset}
        self._cut(state, fields, lambda it, ms: it.truncate_to_leader(diverging, epoch, ms))

    def _truncate(self, state: FetchState, offset: Offset) -> None:
        def cut(partition: Partition, wall_ms: int) -> Offset | ErrorCode:
            return partition.truncate_to(offset, state.leader_epoch, wall_ms)

        self._attempt(state, lambda: self._cut(state, {"offset": offset}, cut))

    def _begin_anew(self, state: FetchState, offset: Offset) -> None:
        def cut(partition: Partition, wall_ms: int) -> Offset | ErrorCode:
            code = partition.truncate_fully_and_start_at(offset, state.leader_epoch, wall_ms)
            return offset if code is ErrorCode.none else code

        self._attempt(state, lambda: self._cut(state, {"log_start": offset}, cut))

    def _cut(
        self,
        state: FetchState,
        fields: Mapping[str, object],
        cut: Callable[[Partition, int], Offset | ErrorCode],
    ) -> None:
        """Truncate by `cut`, which returns the new end; then fetch from there.

        Not before the producers are those of the end: their replay is done in pieces.
        """
        partition, log = self._broker.partition_of(state.key), self._log_of(state)
        if partition is None or log is None:
            self._fail(state, "it is not followed here")
            return
        segments = len(log.log.segments)
        end_offset = cut(partition, self._clock.wall_ms)
        gone = max(0, segments - len(log.log.segments))
        self._budget.spend(costs.CUT_UNITS + gone * costs.CUT_SEGMENT_UNITS)
        if isinstance(end_offset, ErrorCode):
            self._fail(state, "it is not followed here")
            return
        self._log(LogLevel.INFO, "replica_truncated", state, end_offset=end_offset, **fields)
        if log.is_replaying:
            state.is_replaying = True
            self.session.leave_out(state.key)
            self._replaying.append(state)
        else:
            self._continue(state, log)
        self._broker.took(state.key, False)  # noqa: FBT003 - nothing is raised

    def _replay(self, state: FetchState) -> None:
        """Replay some batches of a truncated log; fetch the partition behind the last."""
        log, is_current = self._log_of(state), self._states.get(state.key) is state
        if is_current and log is None:
            self._fail(state, "it has no log")
        if is_current and log is not None and log.is_replaying:
            replayed = self._attempt(state, lambda: log.replay_some(costs.REPLAY_BYTES))
            self._budget.spend(costs.replay_units(*(replayed or (0, 0))))
            if state.is_replaying and log.is_replaying:
                return
        self._replaying.popleft()
        if is_current and log is not None and state.is_replaying:  # else it has failed, or waits
            self._continue(state, log)

    def _ask(self, state: FetchState, timestamp: int) -> None:
        self._questions.append(
            OffsetQuestion(state.key, state.topic_name, state.leader_epoch, timestamp)
        )

    def on_offset(self, question: OffsetQuestion, answer: Offset | ErrorCode | None) -> None:
        """Take the answer to a question, None for a lost one; truncate if the log is elsewhere.

        A leader whose log ends below was elected without what the follower has (unclean): that
        goes. A leader whose log begins above has deleted what is missing: the log begins anew.
        Otherwise the leader has gone on in the meantime: the fetch is repeated.
        """
        state = self._states.get(question.key)
        if (
            state is None
            or not state.is_asking
            or state.leader_epoch != question.leader_epoch
            or (state.leader_end_offset is None) is not (question.timestamp == LATEST)
        ):
            return
        log = self._log_of(state)
        if answer is ErrorCode.fenced_leader_epoch:
            self._fail(state, "the leader has a later epoch", LogLevel.INFO)
        elif log is None:
            self._fail(state, "it has no log")
        elif answer is None or isinstance(answer, ErrorCode) or answer < 0:
            self._log(LogLevel.INFO, "replica_offset_unknown", state, answer=str(answer))
            self._delay(state)
        else:
            self._take_offset(state, log, answer)

    def _take_offset(self, state: FetchState, log: UnifiedLog, answer: Offset) -> None:
        if state.leader_end_offset is None:
            if answer < log.end_offset:
                state.lag = 0
                self._truncate(state, answer)
            else:
                state.leader_end_offset = answer
                self._ask(state, EARLIEST)
            return
        state.lag = max(0, state.leader_end_offset - max(answer, log.end_offset))
        if answer > log.end_offset:
            self._begin_anew(state, answer)
        else:
            self._continue(state, log)
