"""A compacted log of a partition that is open, cleaned and opened again, on a disk in memory."""

from collections.abc import Iterator

from simulator.cluster.memory_vfs import MemoryVfs
from storage.cleaner.clean_job import CleanEvent, CleanJob, GroupCleaned, RoundEnded
from storage.cleaner.cleaner import clean
from storage.cleaner.compaction_rules import CompactionRules
from storage.cleaner.segment_swap import SegmentSwap
from storage.cleaner.selection import RoundLimits, clean_job, log_to_clean
from storage.logs.log import Log, LogConfig
from storage.logs.log_validator import AppendRules
from storage.logs.produced_records import parse_produced
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from storage.producers.producer_state import ProducerStates
from tests.storage.cleaner.rounds import batch, record
from wire.batches.batch import iterate_batches
from wire.batches.records import RecordView

DIRECTORY = "/d/comp-0"
NOW_MS = 1_700_000_000_000
RULES = CompactionRules(is_compacted=True, dirty_ratio_min=0.1)
LIMITS = RoundLimits(slots=1000, keys_max=900, read_bytes=4096)


class Recorded:
    """A recovery point that is remembered, not written."""

    damage = None

    def __init__(self, end_offset: int) -> None:
        self.end_offset = end_offset

    def note(self, end_offset: int) -> None:
        pass

    def record(self, end_offset: int) -> None:
        self.end_offset = end_offset

    def close(self) -> None:
        pass


def opened(
    vfs: MemoryVfs, recovery_point: int = 0, *, segment_bytes: int = 260, is_clean: bool = False
) -> UnifiedLog:
    vfs.make_directory(DIRECTORY)
    for path in ("/d", "/"):
        vfs.sync_directory(path)
    config = LogConfig(
        contiguous=False,
        verify_from_start=False,
        syncs_at_open=False,
        records_alone=False,
        grows_index_files=True,
        cuts_flushed_damage=True,
        segment_bytes=segment_bytes,
        index_interval_bytes=60,
        reads_old_formats=True,
    )
    log = Log.open(
        vfs, DIRECTORY, config, Recorded(recovery_point), wall_ms=NOW_MS, is_clean=is_clean
    )
    producers = ProducerStates("comp-0", 86_400_000)
    rules = AppendRules(verifies_transactions=False)
    return UnifiedLog(vfs, "comp-0", log, producers, rules, wall_ms=NOW_MS)


def append(
    log: UnifiedLog,
    *records: tuple[bytes, bytes | None],
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
    timestamp_ms: int = NOW_MS,
) -> None:
    """One batch, committed at once."""
    content = batch(
        *[record(n, key, value, timestamp_ms) for n, (key, value) in enumerate(records)],
        producer=producer,
        attributes=attributes,
    )
    log.append_as_leader(parse_produced(memoryview(bytearray(content)), 9), 3, NOW_MS)
    log.set_high_watermark(log.end_offset)


def job_for(
    log: UnifiedLog, recorded: int | None = None, rules: CompactionRules = RULES
) -> CleanJob:
    found = log_to_clean(log, recorded, rules, NOW_MS)
    assert found.is_cleanable(rules), f"{found=}"
    return clean_job("comp-0", log, found, rules, LIMITS, NOW_MS)


def swap(vfs: MemoryVfs, log: UnifiedLog, group: GroupCleaned) -> list[str]:
    """All steps of a swap; the old files, as a broker would unlink them later."""
    one = SegmentSwap(vfs, log.log, group)
    one.begin()
    one.sync()
    renamed = one.replace()
    one.sync()
    one.finish()
    one.sync()
    return list(renamed)


def cleaned(vfs: MemoryVfs, log: UnifiedLog, recorded: int | None = None) -> int:
    """Clean a log with its swaps; its next first dirty offset."""
    events: Iterator[CleanEvent] = clean(vfs, job_for(log, recorded))
    for event in events:
        if isinstance(event, GroupCleaned):
            swap(vfs, log, event)
        elif isinstance(event, RoundEnded):
            return event.end_offset
    raise AssertionError("it ends with `RoundEnded`")


def records_of(log: UnifiedLog) -> list[RecordView]:
    """All records that a reader gets from the log start on."""
    found: list[RecordView] = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        part = log.slice(offset, 1 << 20, FetchIsolation.LOG_END, at_least_one=True)
        if part is None:
            break
        content = part.read()
        part.close()
        for one in iterate_batches(content):
            assert one.crc_is_valid
            found += [each for each in one.records() if each.offset >= offset]
            offset = one.header.end_offset
    return found


def newest(records: list[RecordView]) -> dict[bytes | None, bytes | None]:
    return {each.key: each.value for each in records}
