"""`history`: the whole past of the cluster's metadata as tables, reports and one page.

    1 scan     headers, transaction markers, leader changes            vector reader, tasks
    2 decode   typed events and the `records` archive                  once per record, tasks
    3 fold     topics, configs, brokers and the like (`fold`)          driver
    4 fold     partitions and all reports (`partitions`)               vectors, one task per bucket

An engine runs the tasks, processes of this machine or Spark's; data goes from file to file by
Arrow and never through a JVM, so both write the same bytes.
With `--append` an archive continues where it ended: only new records are decoded and only the keys
they change get new intervals; closed intervals keep their files. Kafka deletes its metadata log
after days, so an archive must be fed before that.
"""

import shutil
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.audit.findings import Finding
from pipeline.core.errors import BadInputError
from pipeline.core.reading.discovery import discover
from pipeline.core.reading.options import MODES, Options
from pipeline.core.reading.reader import Piece, ReadPlan, plan_read
from pipeline.core.reading.split import Split
from pipeline.core.stage import LOCAL, Stage
from pipeline.jobs.engines import Engine, engine_choice, start_engine
from pipeline.jobs.history import query as history_query
from pipeline.jobs.history.check import compare_snapshots, print_differences
from pipeline.jobs.history.continuation import (
    STATE_NAME,
    Archive,
    ArchivedLog,
    archived_log,
    write_archived_log,
)
from pipeline.jobs.history.damage import (
    FAILFAST,
    PERMISSIVE,
    damage_lines,
    show_damage,
    write_damage,
)
from pipeline.jobs.history.damage import TABLE as DAMAGE
from pipeline.jobs.history.events import EventCounts, EventPlan, write_events
from pipeline.jobs.history.fold import (
    FoldPlan,
    broker_base,
    fold_brokers,
    fold_keyed,
    min_isr_ranges,
)
from pipeline.jobs.history.input import (
    LogChoice,
    Scanned,
    log_options,
    merge_scans,
    scan_pieces,
    snapshot_options,
    snapshot_pieces,
    transactions_of,
)
from pipeline.jobs.history.kept_files import keep_closed, link_files, parquet_rows
from pipeline.jobs.history.overlay import CLEAR_PLACE, Clears, Topics
from pipeline.jobs.history.packed_lists import numbers_of, whole
from pipeline.jobs.history.partitions import BucketPlan, fold_bucket
from pipeline.jobs.history.reports import Surroundings, Timeline, merged_churn
from pipeline.jobs.history.schema import CLEAR_EVENTS, KEYED_STATES, REPORT_ARROW
from pipeline.jobs.history.sound_log import choose_sound_log, damage_between
from pipeline.jobs.job import JobConfig, JobResult, Progress, progress, usable_folder
from pipeline.jobs.publishing import current_version, publishing_version
from pipeline.report_page import PAGE_NAME

NAME: Final = "history"
FOLLOW_SECONDS_MAX: Final = 7 * 86_400  # Kafka's default retention of its metadata log
_PACK_BYTES: Final = 2 << 20  # some 40,000 records
_PACKS_MAX: Final = 64
_BUCKET_RECORDS: Final = 65_536  # below this a task is not worth its start
_BUCKETS_MAX: Final = 64
Packs = list[tuple[Piece, ...]]
Item = TypeVar("Item")
Found = TypeVar("Found")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of this job."""
    parser.add_argument("--append", action="store_true", help="go on with the archive in --output")
    parser.add_argument("--follow", type=float, metavar="SECONDS",
                        help="append again and again, that many seconds apart")  # fmt: skip
    parser.add_argument("--intra-batch", action="store_true",
                        help="keep every state, not only the last of each batch")  # fmt: skip
    parser.add_argument("--mode", type=str.upper, choices=MODES, default=FAILFAST,
                        help="at damage that nothing replaces: end (FAILFAST), or go on without it"
                        " and list it in the table damage (PERMISSIVE) or only count it"
                        " (DROPMALFORMED)")  # fmt: skip
    parser.add_argument("--reveal", action="store_true", help="do not hide secrets")
    parser.add_argument("--report", metavar="DIR", help="a page with pictures for people")
    parser.add_argument("--logs", nargs="+", metavar="DIR", help="of --report: logs to picture"
                        " batches of, in place of those the history was fed from")  # fmt: skip
    parser.add_argument("--delta", metavar="DIR", help="keep DIR/TABLE as Delta tables, beside"
                        " --output")  # fmt: skip
    parser.add_argument("--who-led", metavar="TOPIC-N", help="say who led a partition, and why")
    parser.add_argument("--at", metavar="TIME", help="of --who-led: 2026-11-17T14:07 (UTC) or an"
                        " offset; now without it")  # fmt: skip


def run(config: JobConfig) -> JobResult:
    """Build or continue the tables below the output; then answer and draw as the flags ask.

    An input that is itself a finished history is not built again.

    Raises:
        BadInputError: no metadata log, a wrong option, an output that is in use.
        DataLossError: the next records of an archive are gone.
        CorruptSegmentError: a damaged batch.
    """
    arguments = config.arguments
    _check_pause(arguments.follow)
    finished = history_query.finished_history(config.inputs)
    if arguments.delta is not None:
        _check_delta(config, is_log=finished is None)
    if finished is None:
        follows = arguments.follow is not None and not config.dry_run
        result = follow(config, _sleeps(arguments.follow)) if follows else _built(config)
        root = None if config.output is None else str(current_version(config.output))
    else:
        result, root = JobResult(), finished
        _update_delta(config, finished)
    if config.dry_run or root is None:
        return result
    if arguments.who_led:
        answer = history_query.who_led(
            root, arguments.who_led, **history_query.moment(arguments.at)
        )
        history_query.print_answer(answer, as_json=config.as_json)
    if arguments.report:
        from pipeline.jobs.history import page  # noqa: PLC0415  # needs matplotlib

        logs = config.inputs if finished is None else None
        logs = arguments.logs or logs
        session = None if config.engine == LOCAL else partial(config.session, NAME)
        page.write_page(session, root, arguments.report, logs)
        sys.stderr.write(f"report: {Path(arguments.report, PAGE_NAME).absolute()}\n")
    return result


def follow(config: JobConfig, pauses: Iterable[object]) -> JobResult:
    """Append once, and again after each pause; returns the result of the last run.

    Raises:
        DataLossError: the archive's next records are gone.
    """
    config.arguments.append = True
    result = _built(config)
    for number, _ in enumerate(pauses):
        again = msgspec.structs.replace(config, run_id=f"{config.run_id}+{number}")
        result = _built(again)
    return result


def _built(config: JobConfig) -> JobResult:
    """Build the archive, then bring the Delta tables up to it."""
    result = build(config)
    if config.output is not None and not config.dry_run:
        _update_delta(config, str(current_version(config.output)))
    return result


def _check_delta(config: JobConfig, *, is_log: bool) -> None:
    """Refuse a place of the Delta tables in what is read, or in the archive."""
    files = discover(config.inputs, strict=False).files if is_log else []
    read = [Split(file, 0, file.size, file.base_offset) for file in files]
    folder = usable_folder("--delta", config.arguments.delta, read).resolve()
    archive = Path(config.inputs[0] if config.output is None or not is_log else config.output)
    if archive.resolve() in (folder, *folder.parents):
        raise BadInputError(f"--delta {config.arguments.delta} lies in the archive {archive}")


def _update_delta(config: JobConfig, root: str) -> None:
    if config.arguments.delta is None or config.dry_run:
        return
    from pipeline.jobs.history.delta import update_tables  # noqa: PLC0415  # needs deltalake

    archive = Archive(Path(root), str(config.output or config.inputs[0]))
    update_tables(archive, Path(config.arguments.delta))


def _check_pause(seconds: float | None) -> None:
    if seconds is not None and not 0 <= seconds <= FOLLOW_SECONDS_MAX:
        raise BadInputError(f"--follow is {seconds}, allowed: 0 to {FOLLOW_SECONDS_MAX} seconds")


def _sleeps(seconds: float) -> Iterator[None]:
    while True:
        time.sleep(seconds)
        yield


def build(config: JobConfig) -> JobResult:
    """Read the new records (or all) in one run and publish the tables.

    Raises:
        BadInputError: an input or an archive that cannot be used, or the two do not belong
            together.
        DataLossError: the archive's next records are gone, or its last ones were cut.
    """
    base = None
    if config.arguments.append and config.output is not None:
        base = current_version(config.output)
    before = history_query.archive_end(base)
    archive = None
    if before is not None:
        assert base is not None
        archive = Archive(base, str(config.output))
        archive.check_flags(config.arguments)
        # the log of another cluster need not have the next offset
        archive.check_cluster(", ".join(config.inputs), discover(config.inputs).cluster_id)
    choice = choose_sound_log(config.inputs, before, config.arguments.mode)
    if archive is not None:
        choice = archive.check(choice)
    plan = _plan(choice, choice.end)
    packs = list(plan.packs)
    choice = msgspec.structs.replace(choice, bypassed=(*choice.bypassed, *plan.cut_tails))
    for line in choice.bypassed:
        sys.stderr.write(f"{line}\n")
    planned = sum(piece.split.size for pack in packs for piece in pack)
    if config.dry_run:
        offsets = {"start_offset": choice.start, "end_offset": choice.end}
        return JobResult(counters={"splits": len(packs), "bytes": planned} | offsets)
    if archive is not None:
        if archive.counters["log_end_offset"] == choice.end:
            return _nothing_new(config, archive, choice)
        config = msgspec.structs.replace(config, overwrite=True)
    splits = [piece.split for pack in packs for piece in pack]
    with publishing_version(config, splits) as publication:
        if archive is not None and current_version(archive.name) != base:
            raise BadInputError(f"{archive.name}: another run has appended meanwhile; try again")
        events = publication.folder.parent / f"{config.run_id}.events"
        engine = start_engine(config, NAME, engine_choice(config, planned))
        try:
            # each pack is scanned and decoded; then there is a bucket at least
            steps = 2 * len(packs) + 1
            with progress(engine.spark, planned, tasks=steps, as_json=config.as_json) as shown:
                run = _Run(config, engine, shown, choice, packs, folder=publication.folder,
                           events=events, archive=archive)  # fmt: skip
                publication.result = run.result()
        finally:
            shutil.rmtree(events, ignore_errors=True)
    return publication.result


def _nothing_new(config: JobConfig, archive: Archive, choice: LogChoice) -> JobResult:
    """Append nothing, but check that the snapshots beside the log agree with the archive."""
    with tempfile.TemporaryDirectory() as events:
        compared = compare_snapshots(
            choice.others, archive.root, Path(events), archive.counters["end_offset"],
            reveal=config.arguments.reveal,
        )  # fmt: skip
    print_differences(compared.rows)
    return JobResult(counters=archive.counters | {"new_records": 0}, findings=len(compared.rows))


def _plan(choice: LogChoice, end: int) -> ReadPlan:
    """Tasks of some 2 MiB, by the size of the log alone: decoding is slow."""
    size = sum(file.size for file in choice.partition.segments)
    options = log_options(choice, end)
    return plan_read(msgspec.structs.replace(options, min_partitions=pack_count(size)))


class _Run:
    """Steps of one run."""

    def __init__(
        self, config: JobConfig, engine: Engine, shown: Progress, choice: LogChoice, packs: Packs,
        *, folder: Path, events: Path, archive: Archive | None,
    ) -> None:  # fmt: skip
        self._config = config
        self._engine = engine
        self._shown = shown
        self._choice = choice
        self._packs = packs
        self._folder = folder
        self._events = events
        self._archive = archive  # the archive that continues, if any

    @property
    def _base(self) -> Path | None:
        """Version of the archive that continues."""
        return None if self._archive is None else self._archive.root

    def result(self) -> JobResult:
        """Run all steps; the tables are in the folder afterwards."""
        config, choice = self._config, self._choice
        options = log_options(choice)
        scanned = self._scan(options)
        of_log = damage_between(choice, scanned.damage, choice.start)
        damage = (*choice.damage, *of_log)
        show_damage(damage)
        transactions, open_begin = transactions_of(scanned.markers, has_gaps=bool(damage))
        end = choice.end if open_begin is None else open_begin
        plan = EventPlan(
            events=str(self._events), archive=str(self._folder),
            label=f"{choice.start:020d}", transactions=tuple(transactions),
            reveal=config.arguments.reveal, buckets=bucket_count(scanned.records),
        )  # fmt: skip
        counts = self._decode(plan, end)
        tables = self._fold(plan)
        tables["controller_epochs"] = self._controller_epochs(scanned, end)
        findings = self._compare(end) + len(damage)
        # what is above the end of the archive the next append meets again
        lost = (*choice.damage, *damage_between(choice, of_log, choice.start, open_begin))
        self._keep_damage(plan.label, lost)
        old = self._keep_records()
        read = {"records": counts.records + old}
        counters = {
            "start_offset": choice.start if self._archive is None else
            self._archive.counters["start_offset"],
            "end_offset": end,
            "log_end_offset": choice.end,
            "is_end_committed": int(choice.is_end_committed),
            "new_records": counts.records,
            "no_ops": scanned.no_ops,
            "aborted": counts.aborted,
            "unknown": counts.unknown,
            "damaged": len(lost) + self._before("damaged"),
            "transactions": len(transactions),
            "intra_batch": int(config.arguments.intra_batch),
            "reveal": int(config.arguments.reveal),
            "bytes": sum(piece.split.size for pack in self._packs for piece in pack),
        }  # fmt: skip
        return JobResult(
            tables=read | tables, counters=counters, findings=findings,
            bypassed=(*choice.bypassed, *damage_lines(damage)), engine=self._engine.choice,
        )  # fmt: skip

    def _before(self, counter: str) -> int:
        """Value of a counter in the archive that continues; one that it lacks is 0."""
        return 0 if self._archive is None else self._archive.counters.get(counter, 0)

    def _keep_damage(self, label: str, damage: Sequence[Finding]) -> None:
        """Write the table `damage` if the mode wants it, and keep what earlier runs wrote."""
        if self._choice.mode == PERMISSIVE:
            write_damage(self._folder, label, damage)
        if self._base is not None:
            link_files(self._base / DAMAGE, self._folder / DAMAGE)

    def _scan(self, options: Options) -> Scanned:
        work = partial(scan_pieces, options=options)
        return merge_scans(self._run(Stage(work, tuple(self._packs), (0,) * len(self._packs))))

    def _decode(self, plan: EventPlan, end: int) -> EventCounts:
        options = log_options(self._choice, end)
        packs = list(_plan(self._choice, end).packs) if end < self._choice.end else self._packs
        seed = self._choice.seed
        found: list[EventCounts] = []
        if seed is not None:
            seeding = msgspec.structs.replace(plan, snapshot_end=seed.base_offset, transactions=())
            seed_options = snapshot_options(seed, self._choice.mode)
            pieces = tuple(snapshot_pieces(seed))  # none of an empty file
            found += self._run(_decoding((pieces,) if pieces else (), seed_options, seeding))
        found += self._run(_decoding(packs, options, plan))
        totals = zip(*(msgspec.structs.astuple(one) for one in found), strict=True)
        return EventCounts(*map(sum, totals)) if found else EventCounts()

    def _run(self, stage: Stage[Item, Found]) -> list[Found]:
        return self._engine.run(stage, self._shown)

    def _fold(self, events: EventPlan) -> dict[str, int]:
        """Fold the events to all tables and reports; returns the rows of each."""
        intra_batch = bool(self._config.arguments.intra_batch)
        root = self._base
        state = None if root is None else root / STATE_NAME
        plan = FoldPlan(
            events=self._events, folder=self._folder, label=events.label,
            intra_batch=intra_batch, state=state,
        )  # fmt: skip
        self._events.mkdir(parents=True, exist_ok=True)
        fold_keyed(plan)
        _, standing = fold_brokers(plan, [] if root is None else broker_base(root))
        folders = [self._folder] if root is None else [root, self._folder]
        around = Surroundings(
            Topics(pq.read_table(self._events / "topics.parquet")), Timeline(standing),
            Timeline(min_isr_ranges(folders)),
        )  # fmt: skip
        clears = clears_of(self._events / "clear_elr")
        bucket_plan = BucketPlan(
            events=str(self._events), folder=str(self._folder), label=events.label,
            buckets=events.buckets, intra_batch=intra_batch,
            state=None if state is None else str(state),
        )  # fmt: skip
        work = partial(fold_bucket, plan=bucket_plan, around=around, clears=clears)
        numbers = tuple(range(events.buckets))
        self._run(Stage(work, numbers, (0,) * len(numbers)))
        write_churn(self._events, self._folder, state)
        if root is not None:
            keep_closed(root, self._folder)
        return {name: parquet_rows(self._folder / name) for name in _TABLES}

    def _keep_records(self) -> int:
        if self._base is None:
            return 0
        old = self._base / "records"
        rows = parquet_rows(old)
        for place in sorted(old.glob("offset_million=*")):
            link_files(place, self._folder / "records" / place.name)
        return rows

    def _controller_epochs(self, scanned: Scanned, end: int) -> int:
        known = [] if self._base is None else history_query.controller_epochs(self._base)
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
        """Compare snapshots with the history; writes the state that the next append needs."""
        compared = compare_snapshots(
            self._choice.others, self._folder, self._events, end,
            reveal=self._config.arguments.reveal,
        )  # fmt: skip
        if self._archive is not None:
            self._archive.check_compared(self._choice, compared)
        known = ArchivedLog() if self._archive is None else self._archive.log
        log = archived_log(known, self._choice, end, compared.agreeing)
        write_archived_log(self._folder / STATE_NAME, log)
        if compared.rows:
            folder = self._folder / "findings"
            folder.mkdir()
            pq.write_table(pa.Table.from_pylist(compared.rows), folder / "part-0.parquet")
        print_differences(compared.rows)
        return len(compared.rows)


_TABLES: Final = ("partitions", "brokers", *KEYED_STATES, *REPORT_ARROW)


def pack_count(size: int) -> int:
    """Number of tasks that decode a log of so many bytes, where it can be cut so."""
    return max(1, min(_PACKS_MAX, size // _PACK_BYTES))


def bucket_count(records: int) -> int:
    """Number of tasks among which the partitions are divided, by the records of the log alone."""
    return max(1, min(_BUCKETS_MAX, records // _BUCKET_RECORDS))


def _decoding(
    packs: Sequence[tuple[Piece, ...]], options: Options, plan: EventPlan
) -> Stage[tuple[Piece, ...], EventCounts]:
    sizes = tuple(sum(piece.split.size for piece in pack) for pack in packs)
    return Stage(partial(write_events, options=options, plan=plan), tuple(packs), sizes)


def write_churn(events: Path, folder: Path, state: Path | None) -> None:
    """Write `isr_churn` of the whole history: medians need all times, not only the new ones."""
    parts = [] if state is None else [state / "churn" / "part-0.parquet"]
    parts += sorted((events / "churn").glob("*.parquet"))
    merged, report = merged_churn([pq.read_table(path) for path in parts])
    made = {"state/churn": merged, "isr_churn": report.cast(REPORT_ARROW["isr_churn"])}
    for name, table in made.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(table, folder / name / "part-0.parquet", compression="zstd")


def clears_of(folder: Path) -> Clears:
    """Read all ClearElrRecords, in log order."""
    files = sorted(folder.glob("*.parquet"))
    table = pa.concat_tables([CLEAR_EVENTS.empty_table(), *map(pq.read_table, files)])
    names = tuple(table.column("topic").to_pylist())
    places = {name: numbers_of(whole(table.column(name))) for name in CLEAR_PLACE}
    return Clears(names, places)
