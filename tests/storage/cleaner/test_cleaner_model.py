"""The cleaner against a dictionary: the last record of each key is left, and nothing else."""

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.memory_vfs import MemoryVfs
from storage.cleaner.clean_job import GroupCleaned, LastRecord
from storage.segments.segment import segment_name
from storage.segments.transaction_index import AbortedTransaction, encode_aborted
from tests.storage.cleaner.rounds import (
    DIRECTORY,
    NOW_MS,
    TRANSACTIONAL,
    batch,
    cleaned,
    disk,
    headers,
    job_of,
    left,
    marker,
    put,
    record,
    run,
)
from wire.batches.batch import iterate_batches
from wire.batches.compression import Codec
from wire.batches.records import RecordView

KEYS = st.sampled_from([None, b"a", b"b", b"c", b"d" * 70, b"e" * 200])
VALUES = st.sampled_from([None, b"", b"v" * 30])
ENDS = ("none", "commit", "abort")
PASSED = st.sampled_from([None, NOW_MS, NOW_MS + 1])


class Log(NamedTuple):
    """A log, and what a dictionary makes of it."""

    segments: dict[int, list[bytes]]
    aborted: dict[int, list[AbortedTransaction]]
    records: list[tuple[RecordView, int | None]]
    """Of no aborted transaction; with the delete horizon of their batch."""
    producers: dict[int, LastRecord]
    end: int

    def expected(self) -> list[tuple[int, bytes | None, bytes | None]]:
        newest = {one.key: one.offset for one, _ in self.records if one.key is not None}
        return [
            (one.offset, one.key, one.value)
            for one, horizon_ms in self.records
            if one.key is not None
            and newest[one.key] == one.offset
            and (one.value is not None or horizon_ms is None or horizon_ms > NOW_MS)
        ]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log = Log({}, {}, [], {}, 0)
    offset = 0
    for _ in range(draw(st.integers(1, 4))):
        base, log.segments[offset] = offset, []
        for _ in range(draw(st.integers(1, 4))):
            producer_id = draw(st.sampled_from([-1, 7, 8]))
            end = draw(st.sampled_from(ENDS)) if producer_id >= 0 else "none"
            first = offset
            for _ in range(draw(st.integers(1, 2))):
                values = draw(st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4))
                horizon_ms = draw(PASSED)
                records = [
                    record(offset + n, key, value, NOW_MS + n * 3)
                    for n, (key, value) in enumerate(values)
                ]
                log.segments[base].append(
                    batch(
                        *records,
                        producer=(producer_id, 0, 0 if producer_id >= 0 else -1),
                        attributes=TRANSACTIONAL if end != "none" else 0,
                        codec=draw(st.sampled_from([Codec.NONE, Codec.ZSTD])),
                        horizon_ms=horizon_ms,
                    )
                )
                log.producers[producer_id] = LastRecord(producer_id, records[-1].offset, 0)
                if end != "abort":
                    log.records.extend((each, horizon_ms) for each in records)
                offset += len(values)
            if end != "none":
                log.segments[base].append(marker(offset, producer_id, commits=end == "commit"))
                if end == "abort":
                    entry = AbortedTransaction(0, producer_id, first, offset, offset + 1)
                    log.aborted.setdefault(base, []).append(entry)
                offset += 1
            offset += draw(st.sampled_from([0, 0, 3]))  # as an earlier cleaning leaves it
    log.producers.pop(-1, None)
    return log._replace(end=offset)


def disk_of(log: Log) -> MemoryVfs:
    vfs = disk(log.segments)
    for base, entries in log.aborted.items():
        put(vfs, segment_name(base, ".txnindex"), b"".join(map(encode_aborted, entries)))
    return vfs


def swapped(vfs: MemoryVfs, groups: Sequence[GroupCleaned]) -> list[int]:
    """Put the cleaned segments in the place of the old ones; the base offsets that are left."""
    for group in groups:
        for base in group.segments:
            for suffix in (".log", ".index", ".timeindex", ".txnindex"):
                if vfs.exists(f"{DIRECTORY}/{segment_name(base, suffix)}"):
                    vfs.unlink(f"{DIRECTORY}/{segment_name(base, suffix)}")
        for name in vfs.list(DIRECTORY):
            if name.endswith(".cleaned"):
                target = name.removesuffix(".cleaned")
                vfs.rename(f"{DIRECTORY}/{name}", f"{DIRECTORY}/{target}")
    return [int(name[:20]) for name in vfs.list(DIRECTORY) if name.endswith(".log")]


def data_of(content: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    """The records of a segment without the markers."""
    control = {one.base_offset for one in headers(content) if one.is_control and one.records_count}
    return [each for each in left(content) if each[0] not in control]


@settings(max_examples=60, deadline=None)
@given(logs(), st.sampled_from([1, 250, 10_000]))
def test_one_round_leaves_what_a_dictionary_does(log: Log, segment_bytes: int) -> None:
    vfs = disk_of(log)
    job = job_of(
        list(log.segments), log.end, producers=list(log.producers.values()),
        segment_bytes=segment_bytes,
    )  # fmt: skip
    groups, ended = run(vfs, job)
    assert ended.end_offset == log.end
    assert [base for group in groups for base in group.segments] == list(log.segments)
    content = b"".join(cleaned(vfs, group.base_offset) for group in groups)
    assert data_of(content) == log.expected()
    for producer_id, last in log.producers.items():
        kept = [one for one in headers(content) if one.last_offset == last.last_data_offset]
        assert [one.producer_id for one in kept] == [producer_id], "its sequence is lost"
    times = {int(one.offset): one.timestamp_ms for one, _ in log.records}
    for offset, timestamp_ms in timestamps(content):
        assert timestamp_ms == times[offset], "a record has another time"
    whole = b"".join(each for batches in log.segments.values() for each in batches)
    before = {one.base_offset: one for one in headers(whole)}
    for one in headers(content):
        assert one.last_offset == before[one.base_offset].last_offset, "INV-CL-1"


def timestamps(content: bytes) -> list[tuple[int, int]]:
    return [
        (each.offset, each.timestamp_ms)
        for one in iterate_batches(content)
        if not one.header.is_control
        for each in one.records()
    ]


@settings(max_examples=40, deadline=None)
@given(logs(), st.integers(1, 3))
def test_rounds_with_a_small_map_leave_the_same(log: Log, keys_max: int) -> None:
    vfs, bases, dirty = disk_of(log), list(log.segments), 0
    ends = []
    while dirty < log.end:
        job = job_of(
            bases, log.end, first_dirty=dirty, keys_max=keys_max, slots=keys_max,
            producers=list(log.producers.values()),
        )  # fmt: skip
        groups, ended = run(vfs, job)
        assert ended.end_offset > dirty, "no progress"
        dirty = ended.end_offset
        ends.append(dirty)
        bases = swapped(vfs, groups)
    content = b"".join(vfs.read(f"{DIRECTORY}/{segment_name(base)}") for base in bases)
    assert data_of(content) == log.expected()
