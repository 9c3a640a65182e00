"""A disk that fails at any of its operations while a broker takes records, then loses its power.

The load: produce, with segments that roll after three batches, index entries for every batch, a
flush for each record, checkpoints and deletion of old segments. One operation of the disk, or all
from one on, get EIO or ENOSPC. A client is told KAFKA_STORAGE_ERROR and nothing else; the directory
is offline from then, as in Kafka; with `flush.messages=1` every acknowledged record survives, and
the log is a part of what was sent, from its start on.
"""

import errno
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from broker.effects import DirectoryFailed, Effect
from broker.events import TimeAdvanced
from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.unified_log import UnifiedLog
from tests.broker.brokers import LOG_DIR, Driven
from tests.broker.metadata_log import A
from tests.broker.test_failing_disks import codes
from tests.broker.test_replication import TOPIC_ID
from tests.selection import thinned
from wire.api_keys import PRODUCE
from wire.batches.batch import encode_batch, iterate_batches
from wire.errors import ErrorCode
from wire.messages import codec

RECORDS = 14
BATCH_BYTES = len(encode_batch([b"%04d" % 0], 0, 0, 0))
Sent = list[tuple[bytes, bool]]
"""Values in their order, and whether the client was told that they are there."""
CODES = pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
STEPS = pytest.mark.parametrize("every", thinned([61, 7], every=2))


def started(vfs: MemoryVfs, flush_messages: str) -> Driven:
    driven = Driven(vfs=vfs)
    vfs.sync_directory("/")
    driven.metadata.topic(
        internal_segment_bytes=str(3 * BATCH_BYTES),
        index_interval_bytes="0",
        flush_messages=flush_messages,
    )
    driven.start()
    return driven


def asked(value: bytes, acks: int = 1) -> Any:
    new = codec.newest(PRODUCE, "request")
    records = encode_batch([value], 0, -1, 1_000_000)
    row = new.PartitionProduceData(index=0, records=records)
    topic = new.TopicProduceData(topic_id=TOPIC_ID, partition_data=(row,))
    return replace(codec.default_request(PRODUCE), acks=acks, topic_data=(topic,))


def load(driven: Driven, sent: Sent) -> list[Effect]:
    """Produce, with upkeep and checkpoints in between; what left the broker."""
    seen: list[Effect] = []
    driven.connect()
    for number in range(RECORDS):
        value = b"%04d" % number
        effects = driven.request(PRODUCE, 13, asked(value))
        driven.now_ms += 30_000
        late = driven.step(TimeAdvanced())
        answers = [code for row in codes(PRODUCE, 13, [*effects, *late]) for code in row]
        assert len(answers) == 1, f"{answers=}"
        assert answers[0] in (ErrorCode.none, ErrorCode.kafka_storage_error)
        sent.append((value, answers[0] is ErrorCode.none))
        seen += [*effects, *late]
    return seen


def values_in(vfs: MemoryVfs) -> list[bytes]:
    """The values that the next broker finds; it takes one more record."""
    driven = started(vfs, "1")
    (partition,) = [driven.broker._replicas.partitions[A, 0]]
    log: UnifiedLog = partition.log
    found = []
    while len(found) < log.end_offset:
        content = log.log.read(len(found), 1 << 20)
        for batch in iterate_batches(content):
            assert batch.crc_is_valid
            assert batch.header.base_offset == len(found), "no gap"
            found += [record.value or b"" for record in batch.records()]
    driven.connect()
    effects = driven.request(PRODUCE, 13, asked(b"more"))
    assert codes(PRODUCE, 13, effects) == [[ErrorCode.none]]
    return found


def operations() -> tuple[int, int]:
    """Operations before the load and behind it, without a fault."""
    driven = started(MemoryVfs(), "1")
    first = driven.vfs.operations
    load(driven, [])
    return first, driven.vfs.operations


def steps(every: int) -> Iterator[int]:
    first, last = operations()
    assert last - first > 60, "appends, rolls, flushes and checkpoints"
    yield from range(first, last, every)


def check(sent: Sent, found: list[bytes], *, is_flushed: bool) -> None:
    """Nothing acknowledged is lost; what is there was sent, in its order."""
    kept = iter(value for value, _ in sent)
    assert all(value in kept for value in found), f"{found} of {sent}"
    if is_flushed:
        assert [value for value, is_there in sent if is_there and value not in found] == []


def persistent(driven: Driven, step: int, code: int) -> Callable[[str, str], int | None]:
    return lambda _kind, _path: code if driven.vfs.operations > step else None


@STEPS
@CODES
@pytest.mark.parametrize("stays", [False, True], ids=["once", "for-ever"])
def test_no_fault_of_the_disk_loses_an_acknowledged_record(
    code: int, every: int, stays: bool
) -> None:
    for step in steps(every):
        driven, sent = started(MemoryVfs(), "1"), list[tuple[bytes, bool]]()
        if stays:
            driven.vfs.failing = persistent(driven, step, code)
        else:
            driven.vfs.faults[step] = code
        seen = load(driven, sent)
        failed = [each.path for each in seen if isinstance(each, DirectoryFailed)]
        refused = [number for number, (_, is_there) in enumerate(sent) if not is_there]
        assert failed in ([], [LOG_DIR]), step
        if refused:
            assert failed == [LOG_DIR], step
            assert refused == list(range(refused[0], RECORDS)), "offline from then on"
        if code == errno.EIO:
            assert failed == [LOG_DIR], f"{step}: EIO is never passed over"
        assert driven.broker._replicas.waiting_counts == (0, 0, 0)
        driven.vfs.failing = None
        for left in (driven.vfs.crash(), driven.vfs.crash(random.Random(step))):
            check(sent, values_in(left), is_flushed=True)
        driven.vfs.kill()
        check(sent, values_in(driven.vfs), is_flushed=True)


@pytest.mark.parametrize("flush_messages", ["1", "4", str(2**63 - 1)])
def test_a_power_failure_leaves_the_start_of_the_log(flush_messages: str) -> None:
    for seed in range(6):
        driven, sent = started(MemoryVfs(), flush_messages), list[tuple[bytes, bool]]()
        load(driven, sent)
        assert all(is_there for _, is_there in sent)
        left = driven.vfs.crash(random.Random(seed))
        found = values_in(left)
        check(sent, found, is_flushed=flush_messages == "1")
        assert found == [value for value, _ in sent][: len(found)], "a prefix"
