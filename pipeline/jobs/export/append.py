"""One run of an export that grows: what is behind the watermarks of the output."""

from pathlib import Path

import msgspec

from pipeline.core.errors import BadInputError
from pipeline.core.reading.discovery import Listing, discover
from pipeline.core.reading.increment import Increment, Points, plan_increment
from pipeline.core.reading.split import Split
from pipeline.jobs.engines import engine_choice
from pipeline.jobs.export.engine import run_tasks, show_damage, tell
from pipeline.jobs.export.growing import Book, ExportState, Growth, Layout, appending, watermarks_of
from pipeline.jobs.export.manifests import ManifestBook
from pipeline.jobs.export.plan import DELTA, ExportPlan
from pipeline.jobs.export.tasks import Damage, Exported
from pipeline.jobs.job import JobConfig, JobResult, usable_output


def run_append(config: JobConfig, plan: ExportPlan) -> JobResult:
    """Add what is behind the watermarks of the output.

    Raises:
        BadInputError: as `run` of the job.
        DataLossError: as `plan_increment`.
    """
    if plan.options.replicas != "one":
        raise BadInputError("--append needs --replicas one: a watermark is of one log")
    listing = discover(config.inputs, strict=plan.options.mode == "FAILFAST")
    read = [Split(file, 0, file.size, file.base_offset) for file in listing.files]
    output = usable_output(config, read)
    if not read:
        raise BadInputError(f"{', '.join(config.inputs)}: no segments")
    book = _book(config, plan, output)
    if config.dry_run:
        increment = _Append(config, plan, listing, book, book.state()).increment()
        counters = {"splits": len(increment.pieces), "bytes": increment.bytes}
        return JobResult(counters=counters, findings=len(listing.problems) + len(increment.lost))
    with appending(config, book) as state:
        return _Append(config, plan, listing, book, state).result()


def _book(config: JobConfig, plan: ExportPlan, output: Path) -> Book:
    if config.arguments.format != DELTA:
        return ManifestBook(output)
    from pipeline.jobs.export.delta import DeltaBook  # noqa: PLC0415  # needs deltalake

    return DeltaBook(output, plan.schema, by_date=plan.target.date_column is not None)


class _Append:
    """The steps of one run; `state` is that of the output, None before its first run."""

    def __init__(
        self, config: JobConfig, plan: ExportPlan, listing: Listing, book: Book,
        state: ExportState | None,
    ) -> None:  # fmt: skip
        self._config = config
        self._plan = plan
        self._listing = listing
        self._book = book
        self._layout = Layout(
            plan.options.decode, config.arguments.by, tuple(plan.schema.names)
        )  # fmt: skip
        self._state = ExportState(layout=self._layout) if state is None else state

    def increment(self) -> Increment:
        """Plan what is new, where the log is the one that was read."""
        state, cluster_id = self._state, self._listing.cluster_id
        if state.number:
            self._check_same(cluster_id)
        return plan_increment(
            self._listing, self._plan.options, state.points,
            is_same_cluster=cluster_id is not None and cluster_id == state.cluster_id,
            passes_lost=self._config.arguments.skip_lost,
        )  # fmt: skip

    def result(self) -> JobResult:
        """Write and publish what is new."""
        state, increment = self._state, self.increment()
        news = self._news(increment)
        tell((*self._listing.problems, *increment.notes, *news))
        tasks = self._plan.tasks(increment.pieces)
        findings = len(self._listing.problems) + len(increment.lost)
        lost = {"lost_ranges": len(increment.lost)}
        marks, gone = watermarks_of(increment.points), _deleted(increment)
        if state.number and not tasks and (state.watermarks, state.deleted) == (marks, gone):
            counters = {"new_records": 0, "new_files": 0, "bytes": 0, "damaged": 0, **lost}
            tables = {"data": state.rows, "manifest": state.files}
            return JobResult(tables=tables, counters=counters, findings=findings)
        choice = engine_choice(self._config, increment.bytes)
        growth = Growth(self._config, self._book, [one.split for task in tasks for one in task])
        written, damages = run_tasks(
            self._config, self._labelled(state.number + 1), tasks, choice, growth.data
        )
        _check_there(damages)
        unread = {one.unread for one in damages if one.unread is not None}
        points = _points_without(unread, increment.points, state.points)
        marks, notes = watermarks_of(points), _left_out(unread)
        tell(notes)
        written = [one for one in written if one.rows and _key(one) not in unread]
        rows, damaged = sum(one.rows for one in written), sum(one.count for one in damages)
        after = ExportState(
            layout=self._layout, number=state.number + 1,
            cluster_id=self._listing.cluster_id or state.cluster_id, watermarks=marks,
            deleted=gone, rows=state.rows + rows, files=state.files + len(written),
        )  # fmt: skip
        result = growth.publication.result = JobResult(
            tables={"data": after.rows, "manifest": after.files},
            counters={"new_records": rows, "new_files": len(written), "bytes": increment.bytes,
                      "damaged": damaged, **lost},
            findings=findings + damaged, bypassed=(*increment.notes, *news, *notes), engine=choice,
        )  # fmt: skip
        growth.publish(written, after)
        show_damage(damages)
        return result

    def _labelled(self, number: int) -> ExportPlan:
        """The plan with the number of the run in the names of its files: each is new."""
        target = msgspec.structs.replace(self._plan.target, label=f"{number:010d}-")
        return msgspec.structs.replace(self._plan, target=target)

    def _check_same(self, cluster_id: str | None) -> None:
        """Refuse another cluster, and rows of another table."""
        config, kept, known = self._config, self._state.layout, self._state.cluster_id
        if None not in (cluster_id, known) and cluster_id != known:
            raise BadInputError(
                f"{', '.join(config.inputs)} is of cluster {cluster_id}, the export"
                f" {config.output} is of cluster {known}"
            )
        for name in ("decode", "by"):
            was, now = getattr(kept, name), getattr(self._layout, name)
            if was != now:
                raise BadInputError(f"{config.output} was begun with --{name} {was}, not {now}")
        self._book.check_columns(self._state, self._layout.columns)

    def _news(self, increment: Increment) -> list[str]:
        """Lines about topics that came or went, and about records that are gone."""
        gone = [name for name in _deleted(increment) if name not in self._state.deleted]
        lines = [f"{name}: not there any more; its records stay" for name in gone]
        for problems, end in ((increment.recreated, "read from its start"),
                              (increment.lost, "passed over")):  # fmt: skip
            lines += [f"{one.topic}-{one.partition}: {one.detail}, {end}" for one in problems]
        return lines


def _check_there(damages: list[Damage]) -> None:
    """Refuse to go on behind records that were there when the run was planned, in any mode.

    A task may lack a file that is sound: on a machine without the path. The next run knows.
    """
    gone = next((one.gone for one in damages if one.gone is not None), None)
    if gone is not None:
        raise BadInputError(f"{gone}: vanished since it was listed; nothing was added")


def _key(one: Exported) -> tuple[str, int]:
    return one.topic, one.partition


def _points_without(unread: set[tuple[str, int]], now: Points, before: Points) -> Points:
    """The points behind a run; those of partitions that could not be read stay where they were.

    Else the next run would begin behind records that the disk may give again, or another copy.
    """
    kept = {key: point for key, point in now.items() if key not in unread}
    return kept | {key: point for key, point in before.items() if key in unread}


def _left_out(unread: set[tuple[str, int]]) -> list[str]:
    return [
        f"{topic}-{partition}: could not be read, nothing of it was added; the next run begins at"
        " the same record"
        for topic, partition in sorted(unread)
    ]


def _deleted(increment: Increment) -> tuple[str, ...]:
    """The partitions that are not there, like orders-0."""
    return tuple(f"{topic}-{partition}" for topic, partition in sorted(increment.deleted))
