"""The steps of a history in this process, without Spark: for tests of what a task does."""

import pyarrow.parquet as pq

from pipeline.core.reading.reader import plan_read
from pipeline.jobs.history import partitions
from pipeline.jobs.history.events import EventPlan, write_events
from pipeline.jobs.history.fold import (
    FoldPlan,
    fold_brokers,
    fold_keyed,
    min_isr_ranges,
)
from pipeline.jobs.history.input import (
    choose_log,
    log_options,
    merge_scans,
    scan_pieces,
    transactions_of,
)
from pipeline.jobs.history.overlay import Topics
from pipeline.jobs.history.reports import Surroundings, Timeline
from pipeline.jobs.history.run import clears_of, write_churn


def fold_here(root, folder, buckets, chunk_rows):
    """Write all tables below `folder`/out; counts of what was done."""
    events, out = folder / "events", folder / "out"
    options = log_options(choose_log([str(root)]))
    packs = plan_read(options).packs
    scanned = merge_scans(scan_pieces(pack, options) for pack in packs)
    ended, _ = transactions_of(scanned.markers)
    plan = EventPlan(events=str(events), archive=str(out), transactions=tuple(ended),
                     buckets=buckets)  # fmt: skip
    for pack in packs:
        write_events(pack, options, plan)
    fold = FoldPlan(events=events, folder=out, label="0", intra_batch=False, state=None)
    fold_keyed(fold)
    _, standing = fold_brokers(fold, [])
    topics = Topics(pq.read_table(events / "topics.parquet"))
    around = Surroundings(topics, Timeline(standing), Timeline(min_isr_ranges([out])))
    bucket_plan = partitions.BucketPlan(
        events=str(events), folder=str(out), label="0", buckets=buckets, intra_batch=False,
        state=None, chunk_rows=chunk_rows,
    )  # fmt: skip
    for bucket in range(buckets):
        partitions.fold_bucket(bucket, bucket_plan, around, clears_of(events / "clear_elr"))
    write_churn(events, out, None)
    chunks = sum(len(list(partitions.chunks_of(bucket_plan, b, topics))) for b in range(buckets))
    return {"chunks": chunks, "records": scanned.records}
