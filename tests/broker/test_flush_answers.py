"""`flush.messages`: the answer to a Produce leaves behind the flush, which Kafka does before it."""

import errno
from dataclasses import replace
from typing import Any

import pytest

from broker.effects import DirectoryFailed, Effect, RunWork, SendParts
from broker.events import ConnectionClosed, FramesReceived, WorkDone
from broker.replicas.log_flushes import FlushCounts
from simulator.cluster.memory_vfs import MemoryVfs
from tests.broker.brokers import LOG_DIR, Driven
from tests.broker.metadata_log import A
from tests.broker.test_disk_faults import BATCH_BYTES, asked
from tests.broker.test_failing_disks import codes, to_both
from tests.storage.test_unified_log import produced
from wire.api_keys import PRODUCE
from wire.errors import ErrorCode
from wire.messages import codec

NONE, STORAGE_ERROR = ErrorCode.none, ErrorCode.kafka_storage_error


def started(**configs: str) -> Driven:
    driven = Driven(vfs=MemoryVfs())
    driven.metadata.topic(partitions=2, **configs)
    driven.start()
    driven.connect()
    return driven


def with_records(body: Any, records: bytes) -> Any:
    (topic,) = body.topic_data
    (row,) = topic.partition_data
    rows = (replace(row, records=records),)
    return replace(body, topic_data=(replace(topic, partition_data=rows),))


def sent(driven: Driven, body: Any) -> tuple[list[Effect], list[RunWork]]:
    """Effects of a request before its work is done, and that work."""
    frame = bytearray(codec.encode_request(PRODUCE, 13, 5, "client", body))
    events = [FramesReceived(1, [frame])]
    driven.take_memory(events)
    effects = driven.broker.take(events, driven.now)
    effects += driven.broker.settle()
    return effects, [each for each in effects if isinstance(each, RunWork)]


def ended(driven: Driven, work: RunWork, error: BaseException | None = None) -> list[Effect]:
    if error is None:
        work.work()
    return driven.step(WorkDone(work.token, error))


@pytest.mark.parametrize("acks", [1, -1])
def test_the_answer_waits_for_the_flush(acks: int) -> None:
    driven = started(flush_messages="1")
    effects, (work,) = sent(driven, asked(b"x", acks))
    assert codes(PRODUCE, 13, effects) == []
    driven.now_ms += 7
    assert codes(PRODUCE, 13, ended(driven, work)) == [[NONE]]
    assert driven.broker.counts().flushes == FlushCounts(1, (7,))


@pytest.mark.parametrize("acks", [1, -1])
def test_a_flush_that_fails_is_an_error_for_the_client(acks: int) -> None:
    driven = started(flush_messages="1")
    _, (work,) = sent(driven, asked(b"x", acks))
    effects = ended(driven, work, OSError(errno.EIO, "broken"))
    assert codes(PRODUCE, 13, effects) == [[STORAGE_ERROR]]
    assert [each.path for each in effects if isinstance(each, DirectoryFailed)] == [LOG_DIR]
    assert driven.broker.counts().flushes == FlushCounts()


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("error", [None, OSError(errno.EIO, "broken")])
def test_a_duplicate_waits_for_the_flush_of_the_first(acks: int, error: OSError | None) -> None:
    """Kafka holds the lock of the log meanwhile."""
    driven = started(flush_messages="1")
    once = with_records(asked(b"x", acks), bytes(produced(1_000_000, producer=8).buffer))
    _, (first,) = sent(driven, once)
    effects, (second,) = sent(driven, once)
    assert codes(PRODUCE, 13, effects) == []
    code = NONE if error is None else STORAGE_ERROR
    assert codes(PRODUCE, 13, ended(driven, first, error)) == [[code]]
    assert codes(PRODUCE, 13, ended(driven, second)) == [[code]]
    if error is None:
        assert driven.broker._replicas.partitions[A, 0].log.end_offset == 1


def test_every_partition_is_waited_for_and_told_its_own_end() -> None:
    driven = started(flush_messages="1")
    effects, works = sent(driven, to_both(1))
    assert codes(PRODUCE, 13, effects) == []
    assert len(works) == 2
    assert codes(PRODUCE, 13, ended(driven, works[0])) == []
    driven.metadata.remove()
    driven.publish()  # its log is deleted meanwhile
    assert codes(PRODUCE, 13, ended(driven, works[1])) == [[NONE, STORAGE_ERROR]]


def test_records_that_no_flush_is_due_for_are_answered_at_once() -> None:
    driven = started(flush_messages="3")
    for _ in range(2):
        effects, works = sent(driven, asked(b"x"))
        assert (codes(PRODUCE, 13, effects), works) == ([[NONE]], [])
    effects, (work,) = sent(driven, asked(b"x"))
    assert codes(PRODUCE, 13, effects) == []
    assert codes(PRODUCE, 13, ended(driven, work)) == [[NONE]]


def test_nobody_waits_for_the_flush_of_a_roll() -> None:
    driven = started(internal_segment_bytes=str(BATCH_BYTES))
    sent(driven, asked(b"0000"))
    effects, works = sent(driven, asked(b"0001"))
    assert codes(PRODUCE, 13, effects) == [[NONE]]
    assert len(works) == 1


def test_a_client_that_has_gone_is_not_answered() -> None:
    for acks in (1, -1):
        driven = started(flush_messages="1")
        _, (work,) = sent(driven, asked(b"x", acks))
        driven.step(ConnectionClosed(1))
        assert not [each for each in ended(driven, work) if isinstance(each, SendParts)]
        assert driven.broker._replicas.partitions[A, 0].log.log.flushed_end_offset == 1


def test_who_is_answered_may_append_at_once_and_wait_again() -> None:
    """A coordinator of transactions sends its own broker the next markers so."""
    driven, answers = started(flush_messages="1"), []
    manager = driven.broker._replicas

    def append(answered: Any) -> None:
        batch = {(A, 0): produced(1_000_000)}
        manager.append(batch, required_acks=1, timeout_ms=9, answer=answered)

    def again(results: Any) -> None:
        answers.append(results)
        append(answers.append)

    append(again)
    driven.step()
    assert [found[A, 0].base_offset for found in answers] == [0, 1]
    assert driven.broker._local._flushes._awaited == {}
