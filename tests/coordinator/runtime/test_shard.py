"""A shard: decisions on the latest image, answers at the high watermark, failures, loading."""

from collections.abc import Sequence
from typing import Any

import pytest

from coordinator.records.codec import encode
from coordinator.records.group import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from coordinator.records.kinds import GROUP_KINDS
from coordinator.records.schema import CoordinatorRecord, CoordinatorRecordError
from coordinator.runtime import shard as shard_module
from coordinator.runtime.batches import RECORD_OVERHEAD_BYTES
from coordinator.runtime.replay import decoded
from coordinator.runtime.shard import Shard, ShardState
from coordinator.runtime.write import Applied, ProducerIdAndEpoch, Write
from network.clock import Clock, Now
from storage.producers.verification import VerificationGuard
from tests.coordinator.memory_log import MemoryShardLog
from wire.batches.batch import HEADER_BYTES, RecordView
from wire.batches.compression import Codec
from wire.batches.control_records import ControlType, control_type, decode_coordinator_epoch
from wire.errors import ApiError, ErrorCode
from wire.types import LeaderEpoch, Offset

Image = tuple[str, ...]
PRODUCER = ProducerIdAndEpoch(70, 3)
LOAD_IN_PROGRESS = ApiError(ErrorCode.coordinator_load_in_progress)
NOT_COORDINATOR = ApiError(ErrorCode.not_coordinator)
NOT_AVAILABLE = ApiError(ErrorCode.coordinator_not_available)


class Journal:
    """A machine whose image is the list of what was applied."""

    kinds = GROUP_KINDS
    empty: Image = ()

    def __init__(self) -> None:
        self.due_ms: int | None = None
        self.calls: list[str] = []

    def apply(self, image: Image, records: Sequence[tuple[CoordinatorRecord, Applied]]) -> Image:
        for record, at in records:
            assert isinstance(record.key, OffsetCommitKey)
            of = "" if at.producer_id is None else f" of {at.producer_id}"
            image = (*image, f"{record.key.topic} at {at.offset} {at.timestamp_ms}{of}")
        return image

    def replay(self, image: Image, views: Sequence[RecordView], producer_id: int | None) -> Image:
        return self.apply(image, decoded(self.kinds, views, producer_id))

    def apply_marker(self, image: Image, producer_id: int, *, is_commit: bool) -> Image:
        return (*image, f"{'commit' if is_commit else 'abort'} {producer_id}")

    def activated(self, shard: Shard[Image]) -> None:
        self.calls.append(f"activated with {len(shard.image)}")

    def resigned(self) -> None:
        self.calls.append("resigned")

    def next_ms(self) -> int | None:
        return self.due_ms

    def tick(self) -> None:
        self.calls.append("tick")

    def look(self, units: int) -> int:
        return units


class Setup:
    def __init__(self, **log: Any) -> None:
        self.log = MemoryShardLog(**log)
        self.clock = Clock(Now(1_000, 50_000))
        self.machine = Journal()
        self.shard = self.made()
        self.answers: list[object] = []

    def made(self, codec: Codec = Codec.NONE) -> Shard[Image]:
        return Shard(
            self.machine, self.log, self.clock, epoch=LeaderEpoch(4), timeout_ms=500, codec=codec
        )

    def write(self, *topics: str, response: object = None, **fields: Any) -> None:
        write = Write(records=tuple(record(topic) for topic in topics), response=response, **fields)
        self.shard.write(lambda _image: write, self.answers.append)

    def fail_with(self, name: str) -> Any:
        return lambda code: self.answers.append(f"{name} {code.name}")


def record(topic: str) -> CoordinatorRecord:
    key = OffsetCommitKey(group="g", topic=topic, partition=0)
    return CoordinatorRecord(key, OffsetCommitValue(offset=1, metadata="", commit_timestamp=2))


def active(**log: Any) -> Setup:
    setup = Setup(**log)
    setup.shard.activate()
    return setup


def test_a_write_is_answered_at_the_high_watermark_and_then_read() -> None:
    s = active(end_offset=7)
    seen: list[Image] = []
    s.write("a", response="A")
    s.shard.write(lambda image: (seen.append(image), Write(response="seen"))[1], s.answers.append)
    assert seen == [("a at 7 50000",)] == [s.shard.image]
    s.shard.read(lambda image: image, s.answers.append)
    s.shard.flush()
    s.shard.advance(Offset(7))
    assert s.answers == [()]
    assert (s.shard.waiting_count, s.shard.committed) == (2, ())
    s.shard.advance(Offset(8))
    assert s.answers == [(), "A", "seen"]
    s.shard.read(lambda image: image, s.answers.append)
    assert s.answers[-1] == ("a at 7 50000",)
    assert s.shard.waiting_count == 0
    s.shard.advance(Offset(8))
    assert len(s.answers) == 4


@pytest.mark.parametrize(("unflushed", "committed"), [(None, 1), (2, 1), (1, 1), (0, 0)])
def test_what_waits_for_a_flush_is_not_committed(unflushed: int | None, committed: int) -> None:
    setup = active()
    for topic in ("a", "b"):
        setup.write(topic)
        setup.shard.flush()
    setup.log.unflushed_offset = None if unflushed is None else Offset(unflushed)
    setup.shard.advance(Offset(1))
    assert len(setup.shard.committed) == committed


def test_the_writes_of_a_turn_are_one_batch_with_their_times() -> None:
    s = active()
    s.write("a", "b", response=1)
    s.clock.set(Now(1_001, 50_001))
    s.write("c", response=2)
    assert s.log.buffered_count == 1
    s.shard.flush()
    s.shard.flush()
    s.write("d", response=3)
    assert s.log.buffered_count == 2
    s.log.commit(s.shard, 3)
    assert s.answers == [1, 2]
    s.log.commit(s.shard)
    assert s.answers == [1, 2, 3]
    assert [[r and r.key.topic for r in batch] for batch in s.log.records(GROUP_KINDS)] == [
        ["a", "b", "c"], ["d"],
    ]  # fmt: skip
    header = s.log.batches[0][1].header
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (50_000, 50_001)
    assert (header.attributes, header.producer_id, header.base_sequence) == (0, -1, -1)
    assert s.shard.committed == (
        "a at 0 50000", "b at 1 50000", "c at 2 50001", "d at 3 50001",
    )  # fmt: skip


def test_a_response_without_records_waits_for_what_was_decided_before() -> None:
    s = active()
    s.write(response="nothing pending")
    assert s.answers == ["nothing pending"]
    s.write("a", response="a")
    s.write(response="behind the buffer")
    s.shard.flush()
    s.write(response="behind the log")
    s.shard.write(lambda _image: ApiError(ErrorCode.invalid_group_id), s.answers.append)
    assert s.answers[1:] == [ApiError(ErrorCode.invalid_group_id)]
    s.log.commit(s.shard)
    assert s.answers[2:] == ["a", "behind the buffer", "behind the log"]


def test_who_is_not_active_refuses() -> None:
    s = Setup()
    s.write("a")
    s.shard.read(lambda image: image, s.answers.append)
    s.shard.complete_transaction(
        PRODUCER, is_commit=True, coordinator_epoch=0, answer=s.answers.append
    )
    assert s.answers == [LOAD_IN_PROGRESS] * 3
    s.shard.image = s.shard.committed = "what was read before it failed"
    s.shard.fail()
    assert s.shard.image is s.shard.committed is s.machine.empty, "nobody is to ask for it"
    s.write("a")
    s.shard.resign()
    s.shard.read(lambda image: image, s.answers.append)
    assert s.answers[3:] == [NOT_COORDINATOR] * 2
    assert s.machine.calls == []
    assert s.shard.next_ms() is None
    assert not s.log.batches


def test_a_failed_append_takes_the_writes_of_the_batch_back() -> None:
    s = active()
    s.write("a", response="a")
    s.log.commit(s.shard)
    s.write("b", response="b")
    s.shard.flush()
    s.write("c", response="c", on_failure=s.fail_with("c"))
    s.write(response="reader of c", on_failure=s.fail_with("reader"))
    s.log.refusing = ErrorCode.not_leader_or_follower
    s.shard.flush()
    assert s.answers[1:] == [
        "c not_leader_or_follower", NOT_COORDINATOR,
        "reader not_leader_or_follower", NOT_COORDINATOR,
    ]  # fmt: skip
    assert s.shard.image == ("a at 0 50000", "b at 1 50000")
    assert s.shard.waiting_count == 1
    s.log.refusing = None
    s.log.commit(s.shard)
    assert s.answers[-1] == "b"
    s.write("d", response="d")
    s.log.refusing = ErrorCode.kafka_storage_error
    s.shard.flush()
    assert s.shard.image == s.shard.committed == ("a at 0 50000", "b at 1 50000")


@pytest.mark.parametrize(("code", "told"), [
    ("unknown_topic_or_partition", "coordinator_not_available"),
    ("not_enough_replicas", "coordinator_not_available"),
    ("request_timed_out", "coordinator_not_available"),
    ("not_leader_or_follower", "not_coordinator"),
    ("kafka_storage_error", "not_coordinator"),
    ("message_too_large", "unknown_server_error"),
    ("record_list_too_large", "unknown_server_error"),
    ("invalid_fetch_size", "unknown_server_error"),
    ("network_exception", "coordinator_load_in_progress"),
    ("invalid_producer_epoch", "invalid_producer_epoch"),
])  # fmt: skip
def test_errors_of_the_log_are_told_as_by_kafka(code: str, told: str) -> None:
    s = active()
    s.log.refusing = ErrorCode[code]
    s.write("a", producer=PRODUCER)
    assert s.answers == [ApiError(ErrorCode[told])]


def test_a_batch_holds_what_fits() -> None:
    key, value = encode(record("a"))
    each = len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES
    s = active(batch_bytes_max=HEADER_BYTES + 2 * each)
    for topic in "abc":
        s.write(topic, response=topic)
    assert len(s.log.batches) == 1
    s.write("d", "e", response="de")
    assert [len(b) for b in s.log.records(GROUP_KINDS)] == [2, 1]
    s.write("f", "g", "h", response="fgh", on_failure=s.fail_with("fgh"))
    assert s.answers == [
        "fgh record_list_too_large", ApiError(ErrorCode.unknown_server_error),
    ]  # fmt: skip
    s.log.commit(s.shard)
    assert s.answers[2:] == ["a", "b", "c", "de"]
    assert [text[:6] for text in s.shard.committed] == [
        f"{t} at {n}" for n, t in enumerate("abcde")
    ]  # fmt: skip


def test_a_write_that_was_decided_on_what_is_not_appended_fails_too() -> None:
    key, value = encode(record("a"))
    each = len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES
    s = active(batch_bytes_max=HEADER_BYTES + each)
    s.write("a", response="a")
    s.log.refusing = ErrorCode.not_enough_replicas
    s.write("b", response="b", on_failure=s.fail_with("b"))
    assert s.answers == [NOT_AVAILABLE, "b not_enough_replicas", NOT_AVAILABLE]
    assert s.shard.image == ()
    s.log.refusing = None
    s.shard.flush()
    assert not s.log.batches


def test_records_of_a_transaction_are_a_batch_of_their_own() -> None:
    s = active()
    s.write("a", response="a")
    guard = VerificationGuard()
    s.write("b", response="b", producer=PRODUCER, guard=guard)
    assert [source[0] for source in s.log.sources] == [None, guard]
    s.write("c", response="c")
    s.log.commit(s.shard)
    headers = [batch.header for _, batch in s.log.batches]
    assert [(h.is_transactional, h.producer_id, h.producer_epoch) for h in headers] == [
        (False, -1, -1), (True, 70, 3), (False, -1, -1),
    ]  # fmt: skip
    assert s.answers == ["a", "b", "c"]
    assert s.shard.committed == ("a at 0 50000", "b at 1 50000 of 70", "c at 2 50000")


def test_batches_are_compressed() -> None:
    s = Setup()
    s.shard = s.made(Codec.GZIP)
    s.shard.activate()
    s.write("a")
    s.shard.flush()
    (_, batch) = s.log.batches[0]
    assert batch.header.codec is Codec.GZIP
    assert s.log.records(GROUP_KINDS) == [[record("a")]]


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_end_of_a_transaction_is_a_marker_behind_what_was_written(is_commit: bool) -> None:
    s = active()
    s.write("a", response="a")
    s.shard.complete_transaction(
        PRODUCER,
        is_commit=is_commit,
        coordinator_epoch=9,
        answer=s.answers.append,
        transaction_version=2,
    )
    assert [version for _, version in s.log.sources] == [0, 2]
    (_, marker) = s.log.batches[1]
    assert (marker.header.is_control, marker.header.is_transactional) == (True, True)
    assert (marker.header.producer_id, marker.header.producer_epoch) == (70, 3)
    (view,) = marker.records()
    assert control_type(view.key) is (ControlType.COMMIT if is_commit else ControlType.ABORT)
    assert (decode_coordinator_epoch(view.value), view.timestamp_ms) == (9, 50_000)
    s.log.commit(s.shard, 1)
    assert s.answers == ["a"]
    s.log.commit(s.shard)
    assert s.answers == ["a", None]
    assert s.shard.committed[1:] == (f"{'commit' if is_commit else 'abort'} 70",)


def test_a_refused_marker_changes_nothing_and_is_told_as_it_is() -> None:
    s = active()
    s.log.refusing = ErrorCode.not_leader_or_follower
    s.shard.complete_transaction(
        PRODUCER, is_commit=True, coordinator_epoch=9, answer=s.answers.append
    )
    assert s.answers == [ApiError(ErrorCode.not_leader_or_follower)]
    assert s.shard.image == ()


def test_a_write_that_is_not_committed_in_time_is_answered_and_stays() -> None:
    s = active()
    s.write("a", response="a", on_failure=s.fail_with("a"))
    s.shard.flush()
    s.clock.set(Now(1_001, 50_001))
    s.write("b", response="b")
    s.shard.flush()
    assert s.shard.next_ms() == 1_500
    s.clock.set(Now(1_499, 50_499))
    s.shard.tick()
    assert s.answers == []
    s.clock.set(Now(1_500, 50_500))
    s.shard.tick()
    assert s.answers == ["a request_timed_out", NOT_AVAILABLE]
    assert s.shard.next_ms() == 1_501
    s.log.commit(s.shard)
    assert s.answers[2:] == ["b"]
    assert len(s.shard.committed) == 2
    assert s.shard.next_ms() is None
    assert s.shard.waiting_count == 0


def test_the_machine_ticks_when_it_is_due() -> None:
    s = active()
    s.machine.due_ms = 1_200
    s.write("a")
    assert s.shard.next_ms() == 1_200
    s.clock.set(Now(1_199, 0))
    s.shard.tick()
    assert "tick" not in s.machine.calls
    s.clock.set(Now(1_200, 0))
    s.shard.tick()
    assert s.machine.calls[-1] == "tick"
    s.machine.due_ms = 1_600
    assert s.shard.next_ms() == 1_500
    s.log.commit(s.shard)
    assert s.shard.next_ms() == 1_600


def test_writes_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_module, "PENDING_MAX", 2)
    s = active()
    for topic in "abc":
        s.write(topic, response=topic)
    assert s.answers == [NOT_AVAILABLE]
    s.log.commit(s.shard)
    s.write("d", response="d")
    assert s.answers == [NOT_AVAILABLE, "a", "b"]


def test_a_resigned_shard_answers_all_and_forgets() -> None:
    s = active()
    s.write("a", response="a", on_failure=s.fail_with("a"))
    s.shard.flush()
    s.write("b", response="b")
    s.shard.resign()
    assert s.answers == ["a not_coordinator", NOT_COORDINATOR, NOT_COORDINATOR]
    assert s.machine.calls == ["activated with 0", "resigned"]
    assert s.shard.image == ()
    assert s.shard.waiting_count == 0
    s.shard.flush()
    s.shard.advance(Offset(2))
    s.shard.tick()
    assert len(s.log.batches) == 1
    assert (s.shard.committed, len(s.answers)) == ((), 3)
    assert s.shard.next_ms() is None


def test_the_log_is_replayed_with_its_transactions() -> None:
    s = active()
    s.write("a")
    s.write("b", producer=PRODUCER)
    s.shard.complete_transaction(
        PRODUCER, is_commit=True, coordinator_epoch=0, answer=s.answers.append
    )
    s.write("c")
    s.log.commit(s.shard, 2)
    again = s.made()
    for header, views in s.log.replayed():
        again.replay(header, views, high_watermark=Offset(2))
    again.replay(header, (), high_watermark=Offset(2))
    assert again.committed == s.shard.committed == ("a at 0 50000", "b at 1 50000 of 70")
    assert again.image == s.shard.image
    again.activate()
    assert s.machine.calls[-1] == "activated with 4"
    again.write(lambda _image: Write(response="read"), s.answers.append)
    again.advance(Offset(3))
    assert "read" not in s.answers
    again.advance(Offset(4))
    assert s.answers[-1] == "read"
    assert again.committed == s.shard.image


def test_a_later_watermark_commits_what_was_replayed_before() -> None:
    s = active()
    for topic in "abc":
        s.write(topic)
        s.shard.flush()
    again = s.made()
    for (header, views), watermark in zip(s.log.replayed(), (0, 1, 3), strict=True):
        again.replay(header, views, high_watermark=Offset(watermark))
        assert len(again.committed) == watermark
    again.advance(Offset(3))
    assert again.committed == again.image


def test_unknown_types_are_left_out_and_damage_fails_the_shard() -> None:
    s = active()
    s.write("a")
    s.shard.flush()
    ((header, (view,)),) = s.log.replayed()
    again = s.made()
    unknown = RecordView(Offset(0), 0, b"\0\x0f" + b"?", b"")
    again.replay(header, [unknown], high_watermark=Offset(1))
    assert again.image == ()
    cut = RecordView(Offset(1), 0, view.key, b"\0")
    with pytest.raises(CoordinatorRecordError):
        again.replay(header, [cut], high_watermark=Offset(1))
    assert again.state is ShardState.FAILED
    s.shard = again
    s.write("b")
    assert s.answers == [NOT_COORDINATOR]


def test_a_record_that_cannot_be_written_is_a_bug() -> None:
    s = active()
    wrong = CoordinatorRecord(GroupMetadataKey(group="g" * 40_000), None)
    with pytest.raises(CoordinatorRecordError, match="GroupMetadataKey"):
        s.shard.write(lambda _image: Write(records=(wrong,), response=None), s.answers.append)


def test_records_that_are_not_atomic_are_as_many_batches_as_they_need() -> None:
    key, value = encode(record("a"))
    each = len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES
    s = active(batch_bytes_max=HEADER_BYTES + 2 * each)
    s.write("a", "b", "c", "d", "e", response="done", is_atomic=False)
    s.log.commit(s.shard, 4)
    assert s.answers == []
    s.log.commit(s.shard)
    assert s.answers == ["done"]
    assert [len(batch) for batch in s.log.records(GROUP_KINDS)] == [2, 2, 1]
    s.write("f", "g", "h", response="fgh", on_failure=s.fail_with("fgh"), is_atomic=False)
    s.log.refusing = ErrorCode.not_enough_replicas
    s.write("i", "j", response="ij", is_atomic=False)
    assert s.answers[1:] == [
        "fgh not_enough_replicas", NOT_AVAILABLE, NOT_AVAILABLE,
    ]  # fmt: skip
    assert len(s.shard.image) == 7


def test_a_transaction_that_writes_nothing_leaves_the_buffer_alone() -> None:
    s = active()
    s.write("a", response="a")
    s.write(response="nothing", producer=PRODUCER)
    assert not s.log.batches
    s.log.commit(s.shard)
    assert s.log.batches[0][1].header.producer_id == -1
    assert s.answers == ["a", "nothing"]
    with pytest.raises(AssertionError, match="atomically"):
        Write(response=None, producer=PRODUCER, is_atomic=False)
