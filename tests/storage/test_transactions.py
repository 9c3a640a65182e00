"""Transactions in the log of a partition: Kafka's files written by a leader, and any history."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.produced_records import parse_produced
from storage.logs.unified_log import UnifiedLog
from storage.producers.append_source import COORDINATOR
from storage.producers.producer_replay import end_of_transaction
from tests.storage.test_unified_log import (
    NOW,
    STABLE,
    content,
    golden,
    log_bytes,
    opened,
    produced,
)
from wire.batches.batch import Batch, iterate_batches
from wire.batches.transaction_markers import marker_batch

TRANSACTIONAL = 0x10
_BASE_OFFSET = struct.Struct(">q")


# ---- against what Kafka wrote ------------------------------------------------------------------


def as_produced(batch: Batch) -> Batch:
    """The batch as its producer sent it."""
    data = bytearray(batch.buffer)
    _BASE_OFFSET.pack_into(data, 0, 0)
    return parse_produced(memoryview(data), 9)


def as_sent(batch: Batch) -> Batch:
    """The marker as a coordinator asked for it."""
    marker = end_of_transaction(batch)
    assert marker is not None
    return marker_batch(
        batch.header.producer_id,
        batch.header.producer_epoch,
        is_commit=not marker.is_abort,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp_ms=marker.timestamp_ms,
    )


@pytest.mark.parametrize(("name", "segment_bytes"), [("txn-0", 3000), ("comp-0", 2400)])
def test_a_leader_writes_kafkas_files(name: str, segment_bytes: int) -> None:
    """The records of two interleaved producers and their markers; logs and aborted transactions."""
    files, vfs = golden(name), MemoryVfs()
    log = opened(vfs, segment_bytes=segment_bytes, index_interval_bytes=256)
    for batch in iterate_batches(log_bytes(files)):
        header = batch.header
        if header.is_control:
            log.append_as_leader(as_sent(batch), header.leader_epoch, NOW, COORDINATOR)
        else:
            at_ms = max(NOW, header.max_timestamp_ms)
            log.append_as_leader(as_produced(batch), header.leader_epoch, at_ms)
    log.close()
    for suffix in (".log", ".txnindex"):
        expected = {each: files[each] for each in files if each.endswith(suffix)}
        found = {e: vfs.read(f"/d/p-0/{e}") for e in vfs.list("/d/p-0") if e.endswith(suffix)}
        assert found == expected, suffix


# ---- any history -------------------------------------------------------------------------------

PRODUCERS = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PRODUCERS),
        st.tuples(st.just("commit"), PRODUCERS),
        st.tuples(st.just("abort"), PRODUCERS),
        st.tuples(st.just("plain"), st.just(9)),
        st.tuples(st.just("flush"), st.just(0)),
        st.tuples(st.just("lose power"), st.just(0)),
        st.tuples(st.just("stop"), st.just(0)),
    ),
    max_size=24,
)


class Model:
    """Transactions of a log by its batches alone: no state beside them."""

    def __init__(self, batches: list[Batch], high_watermark: int) -> None:
        self.open: dict[int, int] = {}
        """First offset by producer."""
        self.aborted: list[tuple[int, int, int]] = []
        ended: list[tuple[int, int]] = []
        for batch in batches:
            header = batch.header
            marker = end_of_transaction(batch) if header.is_control else None
            if marker is not None:
                first = self.open.pop(header.producer_id, None)
                if first is not None:
                    ended.append((first, marker.offset))
                    if marker.is_abort:
                        self.aborted.append((header.producer_id, first, marker.offset))
            elif header.is_transactional:
                self.open.setdefault(header.producer_id, header.base_offset)
        unstable = [first for first, last in ended if last >= high_watermark]
        self.stable = min([*self.open.values(), *unstable, high_watermark])


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(0, 60))
def test_a_log_knows_its_transactions_also_behind_a_stop_and_a_power_failure(
    steps: list[tuple[str, int]], high_watermark: int
) -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d/p-0")
    vfs.sync_directory("/")
    vfs.sync_directory("/d")
    log = opened(vfs, segment_bytes=300)
    log.log.flush()
    for step, producer in steps:
        if step == "lose power":
            vfs = vfs.crash()
            log = opened(vfs, segment_bytes=300)
        elif step == "stop":
            known = log.high_watermark
            log.close()
            log = opened(vfs, segment_bytes=300, is_clean=True, high_watermark=known)
            log.set_high_watermark(known)
        elif step == "flush":
            log.log.flush()
        elif step == "plain":
            log.append_as_leader(produced(NOW), 1, NOW)
        elif step == "write":
            entry = log.producers.entry(producer)
            sequence = 0 if entry is None else entry.last_sequence + 1
            batch = produced(NOW, producer=producer, sequence=sequence, attributes=TRANSACTIONAL)
            log.append_as_leader(batch, 1, NOW)
        else:
            marker = marker_batch(
                producer, 0, is_commit=step == "commit", coordinator_epoch=0, timestamp_ms=NOW
            )
            log.append_as_leader(marker, 1, NOW, COORDINATOR)
        compare(log, min(high_watermark, log.end_offset))


def compare(log: UnifiedLog, high_watermark: int) -> None:
    batches, offset = [], 0
    while offset < log.end_offset:
        batches += list(iterate_batches(content(log, offset)))
        offset = batches[-1].header.end_offset
    log.set_high_watermark(max(log.high_watermark, high_watermark))
    model = Model(batches, log.high_watermark)
    assert log.last_stable_offset == model.stable
    found = log.aborted_transactions(0, log.end_offset)
    assert [(e.producer_id, e.first_offset, e.last_offset) for e in found] == model.aborted
    assert log.producers.first_undecided_offset == min(model.open.values(), default=None)
    read = [each.header for each in iterate_batches(content(log, 0, STABLE))]
    assert all(header.end_offset <= model.stable for header in read)


class CountingVfs(MemoryVfs):
    """Disk that tells which indexes of aborted transactions were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    @override
    def read(self, path: str) -> bytes:
        if path.endswith(".txnindex"):
            self.asked.append(path[-12 - len(".txnindex") :])
        return super().read(path)


def test_a_segment_without_aborted_transactions_is_asked_for_them_once() -> None:
    vfs = CountingVfs()
    log = opened(vfs, segment_bytes=150)
    for _ in range(5):
        log.append_as_leader(produced(NOW), 1, NOW)
    count = len(log.log.segments)
    assert count > 1
    vfs.asked.clear()
    for _ in range(3):
        assert log.aborted_transactions(0, log.end_offset) == []
    assert len(vfs.asked) == count
    batch = produced(NOW, producer=1, sequence=0, attributes=TRANSACTIONAL)
    log.append_as_leader(batch, 1, NOW)
    marker = marker_batch(1, 0, is_commit=False, coordinator_epoch=0, timestamp_ms=NOW)
    log.append_as_leader(marker, 1, NOW, COORDINATOR)
    for _ in range(2):
        (found,) = log.aborted_transactions(0, log.end_offset)
        assert found.producer_id == 1


@pytest.mark.parametrize("start", [1, 2, 3, 4])
def test_a_log_start_that_rises_above_a_replay_lets_it_go_on(start: int) -> None:
    """Records are deleted at the leader of a log that was just truncated."""
    log = opened(MemoryVfs())
    for sequence in range(6):
        log.append_as_leader(produced(NOW, producer=1, sequence=sequence), 1, NOW)
    log.truncate_to(4, NOW)
    assert log.is_replaying
    log.set_high_watermark(4)
    assert log.raise_log_start_to(start)
    entry = log.producers.entry(1)
    assert log.producers.end_offset == 4
    assert (None if entry is None else entry.last_sequence) == (3 if start < 4 else None)
