"""The coordinator of groups of a broker: elections, loading, answers at the high watermark."""

import errno
from typing import Any

import pytest

from broker.coordinators import loading
from broker.coordinators.coordinator import LINGER_MS
from broker.effects import DirectoryFailed, RunWork, SendParts
from broker.events import ConnectionOpened, FramesReceived, TimeAdvanced, WorkDone
from coordinator.group.config import GroupCoordinatorConfig
from coordinator.group.machine import OffsetsConfig
from coordinator.records.kinds import CONSUMER_OFFSETS
from coordinator.runtime.batches import EncodedRecord, records_batch
from coordinator.runtime.shards import partition_for
from coordinator.transaction.config import TransactionsConfig
from network.turn_budget import TURN_UNITS_MAX
from storage.producers.append_source import COORDINATOR
from tests.broker.brokers import LOG_DIR
from tests.broker.coordinators.coordinated import (
    OFFSET_COMMIT,
    OFFSETS,
    PARTITIONS,
    Coordinated,
    answer_in,
    codes_of,
    commit_body,
    logs,
)
from tests.broker.fronts import LISTENER
from tests.broker.metadata_log import A
from wire.batches.batch import iterate_batches
from wire.batches.compression import Codec
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import TopicId

NONE = ErrorCode.none
NUMBER = partition_for("g", PARTITIONS)
CONFIG = GroupCoordinatorConfig(
    offsets=OffsetsConfig(commit_timeout_ms=700, retention_minutes=1, retention_check_ms=40_000)
)


def started(**settings: object) -> Coordinated:
    broker = Coordinated(**settings)  # type: ignore[arg-type]
    broker.offsets()
    return broker


def test_offsets_are_committed_and_fetched() -> None:
    broker = started()
    assert broker.commit({"a": [(0, 5, "m", 3), (1, 6)], "b": [(0, 7)]}) == {
        "a": {0: NONE, 1: NONE}, "b": {0: NONE},
    }  # fmt: skip
    assert broker.fetch(("g", {"a": [0, 1], "b": [0]})) == {
        "g": ("none", {"a": {0: (5, 3, "m", "none"), 1: (6, -1, "", "none")},
                       "b": {0: (7, -1, "", "none")}}),
    }  # fmt: skip


def test_without_its_topic_no_broker_is_a_coordinator() -> None:
    broker = Coordinated()
    assert broker.commit({"a": [(0, 5)]}) == {"a": {0: ErrorCode.not_coordinator}}
    assert broker.fetch(("g", None)) == {"g": ("not_coordinator", {})}


def test_a_partition_that_another_broker_leads_is_not_coordinated() -> None:
    broker = Coordinated()
    broker.offsets(leader=2, replicas=(1, 2))
    assert broker.commit({"a": [(0, 5)]}) == {"a": {0: ErrorCode.not_coordinator}}


def test_what_was_committed_is_loaded_after_a_restart_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = started()
    for number in range(12):
        assert broker.commit({"a": [(0, number), (1, number)]}, group=f"g{number}")
    monkeypatch.setattr(loading, "RECORD_UNITS", TURN_UNITS_MAX)
    monkeypatch.setattr(loading, "RECORDS_PER_PIECE", 1)
    again = Coordinated(vfs=broker.vfs, has_offsets=True)
    refused = {"g0": ("coordinator_load_in_progress", {})}
    assert again.fetch(("g0", {"a": [0]})) == refused
    assert again.commit({"a": [(0, 5)]}, group="g0") == {
        "a": {0: ErrorCode.coordinator_load_in_progress}
    }
    assert again.groups.loading_count > 0
    before = logs(again.effects, "coordinator_loaded")
    loaded = logs(again.settle(), "coordinator_loaded")
    assert not before
    assert sum(row["records"] for row in loaded) == 24
    assert len(loaded) == PARTITIONS
    assert again.groups.loading_count == 0
    for number in range(12):
        found = again.fetch((f"g{number}", {"a": [1]}))
        assert found == {f"g{number}": ("none", {"a": {1: (number, -1, "", "none")}})}


def test_a_commit_waits_for_its_replicas_and_is_not_seen_before() -> None:
    broker = Coordinated(groups=CONFIG)
    broker.register_at("h2", 9093, node_id=2)
    broker.offsets(replicas=(1, 2))
    assert broker.commit({"a": [(0, 5)]}) is None
    broker.connection_id = 2
    assert broker.fetch(("g", {"a": [0]})) == {"g": ("none", {"a": {0: (-1, -1, "", "none")}})}
    broker.metadata.change(NUMBER, OFFSETS, isr=(1,))
    effects = broker.publish() + broker.settle()
    assert codes_of(answer_in(OFFSET_COMMIT, 9, effects)) == {"a": {0: NONE}}
    assert broker.fetch(("g", {"a": [0]})) == {"g": ("none", {"a": {0: (5, -1, "", "none")}})}


def test_a_commit_that_is_not_replicated_in_time_is_refused() -> None:
    broker = Coordinated(groups=CONFIG)
    broker.register_at("h2", 9093, node_id=2)
    broker.offsets(replicas=(1, 2))
    assert broker.commit({"a": [(0, 5)]}) is None
    broker.now_ms += 699
    assert broker.later(OFFSET_COMMIT, 9, TimeAdvanced()) is None
    assert broker.broker.next_deadline_ms() == broker.now_ms + 1
    broker.now_ms += 1
    answer = broker.later(OFFSET_COMMIT, 9, TimeAdvanced())
    assert codes_of(answer) == {"a": {0: ErrorCode.coordinator_not_available}}


def test_a_leader_that_resigns_answers_who_waits() -> None:
    broker = Coordinated()
    broker.register_at("h2", 9093, node_id=2)
    broker.offsets(replicas=(1, 2))
    assert broker.commit({"a": [(0, 5)]}) is None
    broker.metadata.change(NUMBER, OFFSETS, leader=2)
    effects = broker.publish() + broker.settle()
    answer = answer_in(OFFSET_COMMIT, 9, effects)
    assert codes_of(answer) == {"a": {0: ErrorCode.not_coordinator}}
    assert broker.commit({"a": [(0, 5)]}) == {"a": {0: ErrorCode.not_coordinator}}
    for number in {0, 1, 2} - {NUMBER}:
        broker.metadata.change(number, OFFSETS, leader=2)
    broker.publish()
    broker.settle()
    assert broker.groups.next_ms() is None


def test_who_goes_on_to_lead_keeps_its_image() -> None:
    broker = started()
    broker.commit({"a": [(0, 5)]})
    shard = broker.groups.of("g")
    broker.metadata.change(NUMBER, OFFSETS, leader=1, isr=(1,))
    effects = broker.publish() + broker.settle()
    assert broker.groups.of("g") is shard
    assert shard.epoch == 1  # type: ignore[union-attr]
    assert not logs(effects, "coordinator_loaded")


def test_a_deleted_topic_of_the_coordinator_ends_it_and_another_begins() -> None:
    broker = started()
    broker.commit({"a": [(0, 5)]})
    broker.metadata.remove(OFFSETS)
    broker.publish()
    broker.settle()
    assert broker.commit({"a": [(0, 5)]}) == {"a": {0: ErrorCode.not_coordinator}}
    broker.metadata.topic(CONSUMER_OFFSETS, b"p" * 16, partitions=PARTITIONS)
    broker.publish()
    broker.settle()
    assert broker.fetch(("g", {"a": [0]})) == {"g": ("none", {"a": {0: (-1, -1, "", "none")}})}


def test_offsets_of_a_deleted_topic_go() -> None:
    broker = started()
    broker.commit({"a": [(0, 5)], "b": [(0, 6)]})
    broker.metadata.remove(A)
    broker.publish()
    broker.settle()
    assert broker.fetch(("g", None)) == {"g": ("none", {"b": {0: (6, -1, "", "none")}})}


def test_offsets_expire() -> None:
    broker = started(groups=CONFIG)
    broker.commit({"a": [(0, 5)]})
    broker.pass_ms(40_000)
    assert broker.fetch(("g", None)) == {"g": ("none", {"a": {0: (5, -1, "", "none")}})}
    broker.pass_ms(40_000)
    assert broker.fetch(("g", None)) == {"g": ("none", {})}


def test_a_record_that_cannot_be_read_ends_its_shard_alone() -> None:
    broker = started()
    broker.commit({"a": [(0, 5)]})
    other = next(f"h{n}" for n in range(9) if partition_for(f"h{n}", PARTITIONS) != NUMBER)
    broker.commit({"a": [(0, 6)]}, group=other)
    unreadable = [EncodedRecord(b"\0\2\0\1g", b"\0\x63", 0)]
    batch = records_batch(unreadable, None, Codec.NONE)
    key = (TopicId(OFFSETS), NUMBER)
    broker.broker._replicas.append_at_once(key, batch, COORDINATOR, lambda: lambda _durable: None)
    again = Coordinated(vfs=broker.vfs, has_offsets=True)
    effects = again.effects + again.settle()
    assert again.fetch(("g", None)) == {"g": ("not_coordinator", {})}
    assert again.commit({"a": [(0, 5)]}) == {"a": {0: ErrorCode.not_coordinator}}
    (row,) = logs(effects, "coordinator_not_loaded")
    assert row["partition"] == f"{CONSUMER_OFFSETS}-{NUMBER}"
    assert again.fetch((other, {"a": [0]})) == {other: ("none", {"a": {0: (6, -1, "", "none")}})}
    again.metadata.change(NUMBER, OFFSETS, leader=1)
    again.publish()
    again.settle()
    assert again.fetch(("g", None)) == {"g": ("not_coordinator", {})}, "loaded anew, in vain"


@pytest.mark.parametrize("segment", [0, 2])
@pytest.mark.parametrize(
    ("position", "content", "reason"),
    [
        (16, b"\x09", "magic 9"),
        (8, b"\x00\x00\x00\x01", "cannot be 1 bytes long"),
        (8, b"\x7f", "no batch: length"),
        (100, b"\xff", "CRC of the batch"),
    ],
)
def test_a_damaged_segment_ends_its_shard_alone(
    segment: int, position: int, content: bytes, reason: str
) -> None:
    """Below the recovery point, and after a clean stop, a start checks nothing."""
    broker = Coordinated()
    broker.offsets(**{"segment.bytes": "300", "internal.segment.bytes": "300"})
    others = [f"h{n}" for n in range(9) if partition_for(f"h{n}", PARTITIONS) != NUMBER]
    for group in ("g", *others, "g", "g", "g", "g"):
        broker.commit({"a": [(0, 5)]}, group=group)
    folder = f"{LOG_DIR}/{CONSUMER_OFFSETS}-{NUMBER}"
    files = {each: broker.vfs.size(f"{folder}/{each}") for each in broker.vfs.list(folder)}
    logs_of_it = sorted(each for each in files if each.endswith(".log"))
    assert [int(each[:-4]) for each in logs_of_it] == [0, 2, 4]
    path = f"{folder}/{segment:020d}.log"
    broker.vfs.damage(path, position, content)
    again = Coordinated(vfs=broker.vfs, has_offsets=True, is_clean=True)
    effects = again.effects + again.settle()
    (row,) = logs(effects, "coordinator_not_loaded")
    assert row["partition"] == f"{CONSUMER_OFFSETS}-{NUMBER}"
    assert f"{path}: corrupt at position 0: " in row["reason"]
    assert reason in row["reason"]
    assert again.fetch(("g", None)) == {"g": ("not_coordinator", {})}
    assert again.commit({"a": [(0, 6)]}) == {"a": {0: ErrorCode.not_coordinator}}
    for group in others:
        found = again.fetch((group, {"a": [0]}))
        assert found == {group: ("none", {"a": {0: (5, -1, "", "none")}})}
        assert again.commit({"a": [(0, 6)]}, group=group) == {"a": {0: NONE}}
    left = {each: again.vfs.size(f"{folder}/{each}") for each in logs_of_it}
    assert left == {each: files[each] for each in logs_of_it}, "nothing is cut or written"


def test_a_disk_that_fails_while_a_shard_loads_ends_the_shard() -> None:
    broker = started()
    broker.commit({"a": [(0, 5)]})
    broker.metadata.change(NUMBER, OFFSETS, leader=2)
    broker.publish()
    broker.metadata.change(NUMBER, OFFSETS, leader=1)
    folder = f"{LOG_DIR}/{CONSUMER_OFFSETS}-{NUMBER}/"
    broker.vfs.failing = lambda kind, path: (
        errno.EIO if kind == "read" and path.startswith(folder) else None
    )
    effects = broker.publish()
    assert [each.path for each in effects if isinstance(each, DirectoryFailed)] == [LOG_DIR]
    assert broker.groups.loading_count == 0
    assert broker.fetch(("g", None)) == {"g": ("not_coordinator", {})}


def test_commits_of_a_turn_are_one_batch() -> None:
    broker = started()
    frames = [
        bytearray(codec.encode_request(OFFSET_COMMIT, 9, 5, "c", commit_body({"a": [(0, n)]}, 9)))
        for n in range(3)
    ]
    broker.step(FramesReceived(1, frames))
    partition = broker.broker._replicas.hosted((OFFSETS, NUMBER))
    assert partition is not None
    assert partition.log is not None
    assert partition.log.end_offset == 3


def commits_of(broker: Coordinated, count: int, start: int) -> list[FramesReceived]:
    """Commits of as many connections, which are opened."""
    frame = codec.encode_request(OFFSET_COMMIT, 9, 5, "client", commit_body({"a": [(0, 5)]}, 9))
    numbers = range(start, start + count)
    broker.step(*(ConnectionOpened(number, LISTENER, "127.0.0.1") for number in numbers))
    return [FramesReceived(number, [bytearray(frame)]) for number in numbers]


def batches_of(broker: Coordinated) -> list[int]:
    """Numbers of records of the batches of the coordinator's partition."""
    partition = broker.broker._replicas.hosted((TopicId(OFFSETS), NUMBER))
    assert partition is not None
    assert partition.log is not None
    content = partition.log.log.read(0, 1 << 20)
    return [batch.header.records_count for batch in iterate_batches(content)]


def answer_count(effects: list[Any]) -> int:
    return sum(isinstance(effect, SendParts) for effect in effects)


def test_commits_that_wait_for_a_turn_join_the_batch_of_those_before() -> None:
    broker = started()
    effects = broker.step(*commits_of(broker, 40, 10))
    assert answer_count(effects) == 0, "they are more than a turn takes"
    while answer_count(effects) < 40:
        effects += broker.step(TimeAdvanced())
    assert batches_of(broker) == [40]


def test_commits_wait_for_others_for_some_ms_only() -> None:
    broker = started()
    later = commits_of(broker, 160, 10)
    effects = broker.step(*later[:80])
    assert not batches_of(broker)
    assert not broker.groups.is_busy
    broker.groups.noticed((TopicId(OFFSETS), NUMBER))
    assert broker.groups.is_busy, "a partition is looked at meanwhile"
    broker.now_ms += LINGER_MS - 1
    effects += broker.step(TimeAdvanced())
    assert (batches_of(broker), answer_count(effects)) == ([], 0)
    broker.now_ms += 1
    effects += broker.step(*later[80:])
    (first,) = batches_of(broker)
    assert 0 < first < 80
    while answer_count(effects) < 160:
        broker.now_ms += 1
        effects += broker.step(TimeAdvanced())
    assert sum(batches_of(broker)) == 160
    assert 2 < len(batches_of(broker)) < 10


def test_a_commit_alone_waits_for_nobody() -> None:
    broker = started()
    (commit,) = commits_of(broker, 1, 10)
    assert answer_count(broker.step(commit)) == 1


@pytest.mark.parametrize(("linger_ms", "waits_ms"), [(0, 0), (1, 1), (20, 20)])
def test_writes_are_gathered_for_as_long_as_is_configured(linger_ms: int, waits_ms: int) -> None:
    broker = started(groups=GroupCoordinatorConfig(linger_ms=linger_ms))
    (first,), (second,) = commits_of(broker, 1, 10), commits_of(broker, 1, 11)
    effects = broker.step(first)
    for waited_ms in range(waits_ms):
        assert answer_count(effects) == 0
        if waited_ms == waits_ms - 1:
            effects += broker.step(second)
        assert broker.broker.next_deadline_ms() <= broker.now_ms + waits_ms - waited_ms
        broker.now_ms += 1
        effects += broker.step(TimeAdvanced())
    assert answer_count(effects) == (2 if waits_ms else 1)
    assert batches_of(broker) == [2 if waits_ms else 1]
    broker.step(TimeAdvanced())
    assert broker.broker.next_deadline_ms() > broker.now_ms, "nothing waits any more"


def test_the_slices_of_a_loaded_transaction_log_are_as_large_as_configured() -> None:
    broker = Coordinated(transactions=TransactionsConfig(load_bytes_max=123))
    assert broker.broker._transactions.coordinator._settings.load_bytes_max == 123


def test_the_timers_of_a_shard_are_looked_at_behind_its_flush() -> None:
    """A flush may come turns after its writes; one that fails is tried again by a timer."""
    broker = started()
    groups = broker.groups
    groups.next_ms()
    broker.groups._buffered[NUMBER] = None
    groups.go_on()
    assert groups._touched == {NUMBER}


# ---- flush.messages


def commit_before_its_flush(broker: Coordinated, offset: int) -> tuple[Any, list[RunWork]]:
    """The answer to a commit, None without one, and the work that it leaves."""
    body = commit_body({"a": [(0, offset)]}, 9)
    events = [FramesReceived(1, [bytearray(codec.encode_request(OFFSET_COMMIT, 9, 5, "c", body))])]
    broker.take_memory(events)
    effects = [*broker.broker.take(events, broker.now), *broker.broker.settle()]
    works = [each for each in effects if isinstance(each, RunWork)]
    return answer_in(OFFSET_COMMIT, 9, effects), works


def flushed(broker: Coordinated, work: RunWork, error: OSError | None = None) -> Any:
    if error is None:
        work.work()
    answer = broker.later(OFFSET_COMMIT, 9, WorkDone(work.token, error))
    return None if answer is None else codes_of(answer)


def offset_of(broker: Coordinated) -> int:
    broker.connection_id = 2
    (rows,) = broker.fetch(("g", {"a": [0]}))["g"][1].values()
    return int(rows[0][0])


def test_a_commit_is_there_when_the_flush_that_flush_messages_asks_for_has_ended() -> None:
    broker = Coordinated()
    broker.offsets(flush_messages="1")
    (first, (one,)), (second, (two,)) = (commit_before_its_flush(broker, n) for n in (5, 6))
    assert (first, second, offset_of(broker)) == (None, None, -1)
    assert flushed(broker, one) == {"a": {0: ErrorCode.none}}
    assert offset_of(broker) == 5
    assert flushed(broker, two) == {"a": {0: ErrorCode.none}}
    assert offset_of(broker) == 6


def test_a_commit_whose_flush_fails_is_none() -> None:
    broker = Coordinated()
    broker.offsets(flush_messages="1")
    _, (work,) = commit_before_its_flush(broker, 5)
    answer = flushed(broker, work, OSError(errno.EIO, "broken"))
    assert answer == {"a": {0: ErrorCode.not_coordinator}}


def test_a_commit_that_no_flush_is_due_for_is_answered_at_once() -> None:
    broker = Coordinated()
    broker.offsets(flush_messages="2")
    answer, works = commit_before_its_flush(broker, 5)
    assert (codes_of(answer), works) == ({"a": {0: ErrorCode.none}}, [])
