"""The plan of the compaction job against the log cleaner: records and bytes of every segment."""

import random

import msgspec
import pytest

from storage.cleaner.clean_job import GroupCleaned, RoundEnded
from storage.cleaner.cleaner import clean
from storage.cleaner.compaction_rules import CompactionRules
from storage.cleaner.selection import RoundLimits, clean_job, log_to_clean
from storage.logs.log import Log, LogConfig
from storage.logs.log_validator import AppendRules
from storage.logs.unified_log import UnifiedLog
from storage.os_vfs import OsVfs
from storage.producers.producer_state import ProducerStates
from tests.pipeline.test_compaction import NOW, markers_only, planned, write_segments
from tests.pipeline.test_compaction import Log as RandomLog
from tests.selection import thinned
from wire.batches.legacy_batch import iterate_any

RULES = CompactionRules(is_compacted=True, dirty_ratio_min=0.0)
LIMITS = RoundLimits(slots=1000, keys_max=1000, read_bytes=200)


def opened(vfs, folder):
    """The partition as a broker opens it, which writes the indexes of its transactions."""
    config = LogConfig(
        contiguous=False, verify_from_start=False, syncs_at_open=False, grows_index_files=True
    )
    log = Log.open(vfs, str(folder), config, wall_ms=NOW)
    found = UnifiedLog(
        vfs, folder.name, log, ProducerStates(folder.name, 1 << 50), AppendRules(), wall_ms=NOW
    )
    found.set_high_watermark(found.end_offset)
    return found


def cleaned(root, now):
    """Size and number of records of each segment that a round of the cleaner leaves."""
    vfs, folder = OsVfs(), root / "orders-0"
    log = opened(vfs, folder)
    found = log_to_clean(log, None, RULES, now)
    if not found.is_cleanable(RULES):
        return None
    job = clean_job("orders-0", log, found, RULES, LIMITS, now)
    alone = msgspec.structs.replace(job.rules, segment_bytes=1)
    rows, stats = {}, None
    for event in clean(vfs, msgspec.structs.replace(job, rules=alone)):
        if isinstance(event, GroupCleaned):
            assert len(event.segments) == 1
            name = f"{event.base_offset:020d}.log"
            content = (folder / f"{name}.cleaned").read_bytes()
            rows[name] = len(content), sum(len(one.records()) for one in iterate_any(content))
        elif isinstance(event, RoundEnded):
            stats = event.stats
    log.log.close_files()
    return rows, stats, found.first_uncleanable_offset


@pytest.mark.parametrize("seed", thinned(range(40), every=5))
def test_the_cleaner_does_what_the_plan_says(tmp_path, seed):
    rng = random.Random(seed)
    root = write_segments(tmp_path, RandomLog(seed).segments)
    markers_only(root, rng)
    now = rng.choice((1, NOW))
    before = {row.segment: row for row in planned(root, now=now).rows}
    rows, stats, end = cleaned(root, now)
    assert set(rows) == {name for name in before if int(name[:20]) < end}
    for name, (size, records) in rows.items():
        plan = before[name]
        assert records == plan.records_after, plan
        if plan.action != "clean":  # those of the others are estimates; a horizon moves all deltas
            assert size <= plan.bytes_after + 8 * plan.records_after, plan
    assert stats.invalid_messages_read == sum(
        row.null_keys for name, row in before.items() if name in rows
    )
