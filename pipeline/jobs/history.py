"""`history`: the whole past of the cluster's metadata as tables, reports and one page.

    1 scan     headers, transaction markers, leader changes            vector reader, tasks
    2 decode   typed events and the `records` archive                  Arrow to Parquet, tasks
    3 fold     intervals per key (`history_tables`)                    window functions
    4 report   leader changes, ISR churn, under-replication            from the intervals

With `--append` an archive goes on where it ended: only new records are decoded and only keys that
they touch get new intervals; closed ones stay as files. Kafka deletes its metadata log after days,
so an archive must be fed before that.
"""

import os
import shutil
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.options import Options
from pipeline.core.reader import Piece, plan_read
from pipeline.jobs.history_check import compare_snapshot
from pipeline.jobs.history_events import EventCounts, EventPlan, write_events
from pipeline.jobs.history_input import (
    LogChoice,
    Scanned,
    choose_log,
    log_options,
    merge_scans,
    scan_pieces,
    snapshot_options,
    snapshot_pieces,
    transactions_of,
)
from pipeline.jobs.job import JobConfig, JobResult, progress, publishing

NAME: Final = "history"
STATE: Final = "state"
_SPLITS_MIN: Final = 4
_COMPARED_BYTES_MAX: Final = 256 << 20  # of snapshots
Packs = list[tuple[Piece, ...]]
T = TypeVar("T")


def add_arguments(parser: ArgumentParser) -> None:
    """The job's own flags."""
    parser.add_argument("--append", action="store_true", help="go on with the archive in --output")
    parser.add_argument("--follow", type=float, metavar="SECONDS",
                        help="append again and again, that many seconds apart")  # fmt: skip
    parser.add_argument("--intra-batch", action="store_true",
                        help="keep every state, not only the last of each batch")  # fmt: skip
    parser.add_argument("--reveal", action="store_true", help="do not hide secrets")
    parser.add_argument("--report", metavar="DIR", help="a page with pictures for people")
    parser.add_argument("--who-led", metavar="TOPIC-N", help="say who led a partition, and why")
    parser.add_argument("--at", metavar="TIME", help="of --who-led: 2026-11-17T14:07 (UTC) or an"
                        " offset; now without it")  # fmt: skip


def run(config: JobConfig) -> JobResult:
    """Build or continue the tables below the output; answer and picture what is asked.

    An input that is itself a finished history is not built again.

    Raises:
        BadInputError: no metadata log, a damaged option, an output that is in use.
        DataLossError: an archive whose next records are gone.
        CorruptSegmentError: a damaged batch.
    """
    from pipeline.jobs import history_query  # noqa: PLC0415  # needs pyspark

    arguments = config.arguments
    finished = history_query.finished_history(config.inputs)
    if finished is None:
        result, root = _build(config), config.output
    else:
        result, root = JobResult(), finished
    if config.dry_run or root is None:
        return result
    if arguments.who_led:
        answer = history_query.who_led(
            root, arguments.who_led, **history_query.moment(arguments.at)
        )
        history_query.tell(answer, as_json=config.as_json)
    if arguments.report:
        from pipeline.jobs.history_page import write_page  # noqa: PLC0415  # needs matplotlib

        write_page(config.session(NAME), root, arguments.report, config.inputs)
    return result


def _build(config: JobConfig) -> JobResult:
    arguments = config.arguments
    while True:
        result = build(config)
        if arguments.follow is None or config.dry_run:
            return result
        time.sleep(arguments.follow)
        config = msgspec.structs.replace(config, run_id=f"{config.run_id.split('+')[0]}"
                                         f"+{time.monotonic_ns()}")  # fmt: skip
        config.arguments.append = True


def build(config: JobConfig) -> JobResult:
    """One run: read what is new (or all) and publish the tables."""
    from pipeline.jobs import history_query  # noqa: PLC0415  # needs pyspark

    arguments = config.arguments
    append = arguments.append or arguments.follow is not None
    before = history_query.archive_end(config.output) if append else None
    choice = choose_log(config.inputs, before)
    options = log_options(choice)
    packs = _packs(options)
    planned = sum(piece.split.size for pack in packs for piece in pack)
    if config.dry_run:
        offsets = {"start_offset": choice.start, "end_offset": choice.end}
        return JobResult(counters={"splits": len(packs), "bytes": planned} | offsets)
    if before is not None:
        config = msgspec.structs.replace(config, overwrite=True)
    splits = [piece.split for pack in packs for piece in pack]
    with publishing(config, splits) as publication:
        events = publication.folder.parent / f"{config.run_id}.events"
        spark = config.session(NAME)
        try:
            with progress(spark, planned, as_json=config.as_json):
                run = _Run(config, spark, choice, packs, folder=publication.folder, events=events,
                           before=before)  # fmt: skip
                publication.result = run.result()
        finally:
            shutil.rmtree(events, ignore_errors=True)
            spark.catalog.clearCache()
    return publication.result


def _packs(options: Options) -> Packs:
    """Tasks of at most a quarter of the log: metadata logs are small, decoding them is not."""
    plan = plan_read(msgspec.structs.replace(options, min_partitions=_SPLITS_MIN))
    return list(plan.packs)


class _Run:
    """The steps of one run."""

    def __init__(
        self, config: JobConfig, spark: Any, choice: LogChoice, packs: Packs, *, folder: Path,
        events: Path, before: int | None,
    ) -> None:  # fmt: skip
        self._config = config
        self._spark = spark
        self._choice = choice
        self._packs = packs
        self._folder = folder
        self._events = events
        self._before = before

    def result(self) -> JobResult:
        """Do everything; the tables lie in the folder afterwards."""
        from pipeline.jobs import history_query, history_reports  # noqa: PLC0415  # needs pyspark

        config, choice = self._config, self._choice
        options = log_options(choice)
        scanned = self._scan(options)
        transactions, open_begin = transactions_of(scanned.markers)
        end = choice.end if open_begin is None else open_begin
        plan = EventPlan(
            events=str(self._events), archive=str(self._folder),
            label=f"{choice.start:020d}", transactions=tuple(transactions),
            reveal=config.arguments.reveal,
        )  # fmt: skip
        counts = self._decode(plan, end)
        tables = self._fold(counts)
        tables["controller_epochs"] = self._controller_epochs(scanned, end)
        findings = self._compare(end)
        tables |= history_reports.write_reports(self._spark, str(self._folder))
        old = self._keep_records()
        read = {"records": counts.records + old}
        counters = {
            "start_offset": choice.start if self._before is None else
            history_query.archive_start(config.output),
            "end_offset": end,
            "log_end_offset": choice.end,
            "is_end_committed": int(choice.is_end_committed),
            "new_records": counts.records,
            "no_ops": scanned.no_ops,
            "aborted": counts.aborted,
            "unknown": counts.unknown,
            "transactions": len(transactions),
            "intra_batch": int(config.arguments.intra_batch),
            "bytes": sum(piece.split.size for pack in self._packs for piece in pack),
        }  # fmt: skip
        return JobResult(tables=read | tables, counters=counters, findings=findings)

    def _scan(self, options: Options) -> Scanned:
        return merge_scans(self._over_packs(lambda pack: scan_pieces(pack, options), self._packs))

    def _decode(self, plan: EventPlan, end: int) -> EventCounts:
        options = log_options(self._choice, end)
        packs = _packs(options) if end < self._choice.end else self._packs
        seed = self._choice.seed
        found: list[EventCounts] = []
        if seed is not None:
            seeding = msgspec.structs.replace(plan, snapshot_end=seed.base_offset, transactions=())
            seed_options = snapshot_options(seed)
            found += self._over_packs(
                lambda pack: write_events(pack, seed_options, seeding),
                [tuple(snapshot_pieces(seed))],
            )
        found += self._over_packs(lambda pack: write_events(pack, options, plan), packs)
        totals = zip(*(msgspec.structs.astuple(one) for one in found), strict=True)
        return EventCounts(*map(sum, totals)) if found else EventCounts()

    def _over_packs(self, work: Callable[[tuple[Piece, ...]], T], packs: Packs) -> list[T]:
        """What `work` gives for each pack, by Spark's tasks."""
        if not packs:
            return []

        def task(rows: Iterator[tuple[Piece, ...]]) -> Iterator[T]:
            pa.set_cpu_count(1)
            for pack in rows:
                yield work(pack)

        rows = self._spark.sparkContext.parallelize(packs, len(packs))
        found: list[T] = rows.mapPartitions(task).collect()
        return found

    def _fold(self, counts: EventCounts) -> dict[str, int]:
        from pipeline.jobs.history_keyed import write_keyed_tables  # noqa: PLC0415  # needs pyspark
        from pipeline.jobs.history_tables import INTERVALS, Fold  # noqa: PLC0415  # needs pyspark

        fold = Fold(
            self._spark,
            str(self._events),
            intra_batch=self._config.arguments.intra_batch,
            has_moves=counts.moves > 0,
            has_clears=counts.clears > 0,
            base=self._base(),
        )
        keyed = str(self._events / INTERVALS)
        label = f"{self._choice.start:020d}"
        rows = write_keyed_tables(keyed, self._folder, self._folder / STATE / "keyed", label)
        for name, frame in fold.overlays().items():
            # sorted so that one open file per task is enough
            shown = frame.withColumn("current", frame.valid_to_offset.isNull())
            shown = shown.coalesce(1) if name == "brokers" else shown
            target = str(self._folder / name)
            shown.sortWithinPartitions("current").write.partitionBy("current").parquet(target)
            rows[name] = parquet_rows(self._folder / name)
        for name in rows:
            self._keep_closed(name)
        return {name: parquet_rows(self._folder / name) for name in rows}

    def _base(self) -> dict[str, Any] | None:
        if self._before is None:
            return None
        from pipeline.jobs import history_query  # noqa: PLC0415  # needs pyspark

        root = str(self._config.output)
        frames = {
            name: history_query.table(self._spark, root, name).where("valid_to_offset is null")
            for name in ("partitions", "brokers")
        }
        frames["keyed"] = history_query.open_keyed(self._spark, root)
        return frames

    def _keep_closed(self, name: str) -> None:
        """The closed intervals of the archive stay as the files they are."""
        if self._before is not None:
            link_files(Path(str(self._config.output), name, "current=false"),
                       self._folder / name / "current=false")  # fmt: skip

    def _keep_records(self) -> int:
        if self._before is None:
            return 0
        old = Path(str(self._config.output), "records")
        rows = parquet_rows(old)
        for place in sorted(old.glob("offset_million=*")):
            link_files(place, self._folder / "records" / place.name)
        return rows

    def _controller_epochs(self, scanned: Scanned, end: int) -> int:
        from pipeline.jobs import history_query  # noqa: PLC0415  # needs pyspark

        known = [] if self._before is None else history_query.controller_epochs(
            str(self._config.output)
        )  # fmt: skip
        rows = [row for row in known if row["start_offset"] < self._choice.start]
        rows += [
            {"epoch": one.epoch, "leader": one.leader, "start_offset": one.offset,
             "start_ts": one.time, "voters": list(one.voters), "granting": list(one.granting)}
            for one in scanned.leaders if one.offset < end
        ]  # fmt: skip
        for row, following in zip(rows, [*rows[1:], None], strict=False):
            row["end_offset"] = None if following is None else following["start_offset"]
        folder = self._folder / "controller_epochs"
        folder.mkdir()
        schema = history_query.CONTROLLER_EPOCHS_ARROW
        pq.write_table(pa.Table.from_pylist(rows, schema), folder / "part-0.parquet")
        return len(rows)

    def _compare(self, end: int) -> int:
        """Later snapshots, newest first, must say what the history says at their offsets."""
        found = []
        left = _COMPARED_BYTES_MAX
        for file in sorted(self._choice.others, key=lambda one: -one.base_offset):
            left -= file.size
            if file.base_offset > end or left < 0:
                continue
            events = self._events / f"snapshot-{file.base_offset}"
            plan = EventPlan(
                events=str(events), archive=None, snapshot_end=file.base_offset,
                reveal=self._config.arguments.reveal,
            )  # fmt: skip
            write_events(snapshot_pieces(file), snapshot_options(file), plan)
            found += compare_snapshot(str(self._folder), str(events), file.name, file.base_offset)
        if found:
            folder = self._folder / "findings"
            folder.mkdir()
            pq.write_table(pa.Table.from_pylist(found), folder / "part-0.parquet")
        return len(found)


def link_files(source: Path, target: Path) -> None:
    """Hard links of the Parquet files of one folder in another, copies where links do not work."""
    if not source.exists():
        return
    target.mkdir(parents=True, exist_ok=True)
    for path in source.glob("*.parquet"):
        try:
            os.link(path, target / path.name)
        except FileExistsError:
            continue
        except OSError:
            shutil.copy2(path, target / path.name)


def parquet_rows(folder: Path) -> int:
    """The number of rows in all Parquet files below a folder, by their footers."""
    return sum(pq.ParquetFile(path).metadata.num_rows for path in folder.rglob("*.parquet"))
