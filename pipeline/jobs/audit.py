"""`audit`: soundness of the files of one or more nodes, and equality of replicas byte for byte.

Files are checked in parallel, one task each; then one task per partition compares the files of
each replica and the replicas. Only findings, one row per segment and, between the two steps, 54
bytes per batch leave the tasks. Nothing is repaired.

Tables: `findings`, `segments` (a summary of each file), `replica_diff` (differing batches).
Exit code 1 when there is a finding of severity error.

With --append an output goes on: files that it knows are not read again, and findings stay.
"""

import sys
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.audit.audit import (
    AuditPlan,
    AuditTask,
    Judgement,
    check_file_fully,
    judge_partition,
    plan_audit,
)
from pipeline.core.audit.findings import ERROR, INFO, SEVERITIES, WARN, Finding
from pipeline.core.audit.known_reports import (
    PartitionAudit,
    audit_partition,
    new_bytes,
    partition_audits,
)
from pipeline.core.errors import BadInputError
from pipeline.core.reading.discovery import DEAD_LINK, discover
from pipeline.core.reading.node_watermark import ask_nodes
from pipeline.core.reading.split import Split
from pipeline.core.stage import EngineChoice, Stage
from pipeline.jobs.engines import engine_choice, start_engine
from pipeline.jobs.job import (
    JobConfig,
    JobResult,
    Progress,
    peak_bytes,
    progress,
    publishing,
    tool_version,
    usable_output,
)
from pipeline.jobs.publishing import current_version, publishing_version

NAME: Final = "audit"
_TASKS_MAX: Final = 10_000
_SHOWN_DEFAULT: Final = 20
_STATE_NAME: Final = "state"
_CLUSTER_NAME: Final = "cluster.json"

FINDINGS_SCHEMA: Final = pa.schema(
    [
        ("run_id", pa.string()), ("severity", pa.string()), ("check", pa.string()),
        ("node_id", pa.int32()), ("topic", pa.string()), ("topic_id", pa.string()),
        ("partition", pa.int32()), ("segment", pa.string()), ("path", pa.string()),
        ("position", pa.int64()), ("length", pa.int64()), ("offset", pa.int64()),
        ("epoch", pa.int32()), ("expected", pa.string()), ("actual", pa.string()),
        ("detail", pa.string()), ("tool_version", pa.string()),
    ]
)  # fmt: skip
# of an output that goes on: `run_id` is the run that found it first, `last_run_id` the last one
GROWING_FINDINGS_SCHEMA: Final = FINDINGS_SCHEMA.append(pa.field("last_run_id", pa.string()))
SEGMENTS_SCHEMA: Final = pa.schema(
    [
        ("node_id", pa.int32()), ("topic", pa.string()), ("partition", pa.int32()),
        ("segment", pa.string()), ("bytes", pa.int64()), ("batches", pa.int64()),
        ("records", pa.int64()), ("codec", pa.map_(pa.string(), pa.int64())),
        ("first_offset", pa.int64()), ("last_offset", pa.int64()), ("min_ts", pa.int64()),
        ("max_ts", pa.int64()), ("state", pa.string()),
    ]
)  # fmt: skip
_NODE: Final = pa.struct(
    [
        ("node_id", pa.int32()), ("crc", pa.int64()), ("epoch", pa.int32()),
        ("count", pa.int32()), ("position", pa.int64()), ("segment", pa.string()),
    ]
)  # fmt: skip
DIFFERENCES_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("base_offset", pa.int64()),
        ("last_offset", pa.int64()), ("outcome", pa.string()),
        ("nodes", pa.map_(pa.string(), _NODE)), ("below_hw", pa.bool_()),
    ]
)  # fmt: skip


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of this job."""
    parser.add_argument("--validate", default="crc", choices=("crc", "full"),
                        help="full also decodes every record")  # fmt: skip
    parser.add_argument(
        "--inspect",
        nargs="+",
        default=[],
        metavar="URL",
        help="inspection APIs of running nodes: what they know as committed",
    )
    parser.add_argument("--append", action="store_true", help="read only files that are new or"
                        " have changed since the audits in --output; findings stay")  # fmt: skip
    parser.add_argument("--show", type=int, default=_SHOWN_DEFAULT, metavar="N",
                        help="findings printed on stderr, worst first")  # fmt: skip


def run(config: JobConfig) -> JobResult:
    """Audit the input; without an output the findings are only printed.

    Raises:
        BadInputError: nothing to check, a node that cannot be reached, or a negative --show.
    """
    arguments = config.arguments
    if arguments.append and config.output is None:
        raise BadInputError("--append needs --output: what was read is known there")
    if arguments.show < 0:
        raise BadInputError(f"--show is {arguments.show}, allowed: a whole number from 0 on")
    committed: dict[int, int] = {}
    if arguments.inspect:
        cluster_id = discover(config.inputs, strict=False).cluster_id
        committed = ask_nodes(arguments.inspect, cluster_id)
    plan = plan_audit(config.inputs, full=arguments.validate == "full", committed=committed)
    if not plan.tasks:
        raise BadInputError(f"{', '.join(config.inputs)}: no segments")
    if arguments.append:
        return _appended(config, plan)
    if config.dry_run:
        return JobResult(counters={"files": len(plan.tasks), "bytes": plan.bytes})
    if config.output is None:
        return _audited(config, plan, None)
    splits = [Split(task.file, 0, task.file.size, task.file.base_offset) for task in plan.tasks]
    with publishing(config, splits) as publication:
        publication.result = _audited(config, plan, publication.folder)
    return publication.result


def _appended(config: JobConfig, plan: AuditPlan) -> JobResult:
    """Audit what the output does not know; it becomes a new version of it."""
    splits = [Split(task.file, 0, task.file.size, task.file.base_offset) for task in plan.tasks]
    base = current_version(usable_output(config, splits))
    is_begun = (base / _STATE_NAME).is_dir()
    if is_begun:
        _check_cluster(config, plan, base)
    known = str(base / _STATE_NAME) if is_begun else None
    items = partition_audits(plan, tool_version())
    sizes = tuple(new_bytes(item, known) for item in items)
    if config.dry_run:
        return JobResult(counters={"files": len(plan.tasks), "bytes": sum(sizes)})
    choice = engine_choice(config, sum(sizes))
    engine = start_engine(config, NAME, choice)
    again = msgspec.structs.replace(config, overwrite=config.overwrite or is_begun)
    with publishing_version(again, splits) as publication:
        if is_begun and current_version(str(config.output)) != base:
            raise BadInputError(f"{config.output}: another run has appended meanwhile; try again")
        state = publication.folder / _STATE_NAME
        state.mkdir()
        (state / _CLUSTER_NAME).write_bytes(msgspec.json.encode(plan.listing.cluster_id))
        work = partial(_judged_new, known=known, state=str(state))
        with progress(engine.spark, sum(sizes), tasks=len(items), as_json=config.as_json) as shown:
            judged = engine.run(Stage(work, tuple(items), sizes), shown)
        before = _findings_before(base) if is_begun else []
        audited = _result(config, plan, publication.folder, judged, before)
        counters = audited.counters | {"bytes": sum(one.read_bytes for one in judged)}
        publication.result = msgspec.structs.replace(audited, counters=counters, engine=choice)
    return publication.result


def _judged_new(item: PartitionAudit, *, known: str | None, state: str) -> Judgement:
    return _without_digests(audit_partition(item, known=known, state=state))


def _check_cluster(config: JobConfig, plan: AuditPlan, base: Path) -> None:
    """Refuse files of another cluster than those before, where both say of which they are."""
    place = base / _STATE_NAME / _CLUSTER_NAME
    try:
        known = msgspec.json.decode(place.read_bytes())
    except (OSError, msgspec.MsgspecError) as error:
        raise BadInputError(f"{place}: can not be read, so nothing can be appended") from error
    given = plan.listing.cluster_id
    if None not in (known, given) and known != given:
        raise BadInputError(
            f"{', '.join(config.inputs)} is of cluster {given}, the audit {config.output} is of"
            f" cluster {known}"
        )


def _findings_before(base: Path) -> list[dict[str, Any]]:
    """The findings of earlier audits."""
    path = base / "findings.parquet"
    try:
        found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    except (OSError, ValueError) as error:
        raise BadInputError(f"{path}: can not be read, so nothing can be appended") from error
    return found


def _audited(config: JobConfig, plan: AuditPlan, folder: Path | None) -> JobResult:
    choice = engine_choice(config, plan.bytes)
    result = _result(config, plan, folder, judgements(config, plan, choice), None)
    return msgspec.structs.replace(result, engine=choice)


def _result(
    config: JobConfig, plan: AuditPlan, folder: Path | None, judged_all: Iterable[Judgement],
    before: list[dict[str, Any]] | None,
) -> JobResult:  # fmt: skip
    """Write the tables and show the findings.

    Args:
        config: configuration of the run.
        plan: the audit.
        folder: of the tables; None to write none.
        judged_all: the judgement of each partition.
        before: findings of earlier audits of an output that goes on; None for another one.
    """
    findings = list(plan.findings)
    segments: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    equal = peak = 0
    for judged in judged_all:
        findings += judged.findings
        segments += [msgspec.to_builtins(report.summary) for report in judged.reports]
        differences += [msgspec.to_builtins(one) for one in judged.comparison.differences]
        equal += judged.comparison.batches
        peak = max(peak, judged.peak_bytes)
    findings = [_seen_from_here(one) for one in findings]
    findings.sort(key=lambda one: (SEVERITIES.index(one.severity), one.path, one.position))
    segments.sort(key=lambda row: (row["topic"], row["partition"], row["segment"]))
    counts = Counter(finding.severity for finding in findings)
    known = {"run_id": config.run_id, "tool_version": tool_version()}
    rows = [known | msgspec.to_builtins(finding) for finding in findings]
    schema = FINDINGS_SCHEMA
    if before is not None:
        rows, schema = _accumulated(before, rows, config.run_id), GROWING_FINDINGS_SCHEMA
    tables = {"findings": len(rows), "segments": len(segments), "replica_diff": len(differences)}
    if folder is not None:
        _write(folder / "findings.parquet", rows, schema)
        _write(folder / "segments.parquet", segments, SEGMENTS_SCHEMA)
        _write(folder / "replica_diff.parquet", differences, DIFFERENCES_SCHEMA)
        lines = "".join(msgspec.json.encode(row).decode() + "\n" for row in rows)
        (folder / "findings.jsonl").write_text(lines, encoding="utf-8")
    _show(findings, config.arguments.show)
    return JobResult(
        tables=tables,
        counters={"errors": counts[ERROR], "warnings": counts[WARN], "infos": counts[INFO],
                  "batches": sum(row["batches"] for row in segments), "bytes": plan.bytes,
                  "equal_batch_pairs": equal, "task_peak_bytes": peak},
        findings=counts[ERROR],
    )  # fmt: skip


def _accumulated(
    before: list[dict[str, Any]], now: list[dict[str, Any]], run_id: str
) -> list[dict[str, Any]]:
    """The findings of now, each with the run that found it first, then those that are no more."""
    first = {_same(row): row["run_id"] for row in before}
    rows = [
        row | {"run_id": first.get(_same(row), run_id), "last_run_id": run_id} for row in now
    ]  # fmt: skip
    there = {_same(row) for row in now}
    return rows + [row for row in before if _same(row) not in there]


def _same(row: dict[str, Any]) -> tuple[Any, ...]:
    """Identity of a finding: two runs may say more or less of it."""
    return tuple(row.get(name) for name in ("check", "path", "position", "offset", "node_id"))


def _seen_from_here(finding: Finding) -> Finding:
    """Rewrite `vanished`: a file gone for a task but present for the driver was not deleted."""
    path = Path(finding.path)
    if finding.check != "vanished" or not (path.exists() or path.is_symlink()):
        return finding
    detail = "not there for the task that was to read it: every executor needs the same paths"
    return msgspec.structs.replace(
        finding, severity=ERROR, check="unreadable", detail=detail if path.exists() else DEAD_LINK
    )


def judgements(config: JobConfig, plan: AuditPlan, choice: EngineChoice) -> Iterable[Judgement]:
    """Yield the judgement of each partition: in this process, or from Spark's tasks."""
    spark = start_engine(config, NAME, choice).spark
    if spark is None:
        with progress(None, plan.bytes, tasks=len(plan.tasks), as_json=config.as_json) as shown:
            yield from _judged_here(plan, shown)
        return
    copies_of = plan.copies

    def check(numbered: tuple[int, AuditTask]) -> tuple[Any, Any]:
        number, task = numbered
        return task.key, (number, check_file_fully(task))

    def judge(pair: tuple[Any, Any]) -> tuple[Any, Judgement]:
        key, reports = pair  # in the order in which they came
        in_order = [report for _, report in sorted(reports, key=itemgetter(0))]
        return key, _without_digests(judge_partition(copies_of[key], in_order))

    # large files first, so that a small task ends last
    tasks = sorted(enumerate(plan.tasks), key=lambda one: -one[1].file.size)
    slices = min(len(tasks), _TASKS_MAX)
    groups = min(len(copies_of), spark.sparkContext.defaultParallelism * 4)
    with progress(spark, plan.bytes, tasks=slices + groups, as_json=config.as_json):
        checked = spark.sparkContext.parallelize(tasks, slices).map(check)
        grouped = checked.groupByKey(groups)
        judged = dict(grouped.map(judge).collect())
    for key, copies in copies_of.items():
        yield judged[key] if key in judged else judge_partition(copies, [])


def _judged_here(plan: AuditPlan, shown: Progress) -> Iterator[Judgement]:
    """Partition by partition: only its own rows per batch are in memory."""
    tasks_of: dict[tuple[str, int], list[AuditTask]] = defaultdict(list)
    for task in plan.tasks:
        tasks_of[task.key].append(task)
    for key, copies in plan.copies.items():
        reports = []
        for task in tasks_of[key]:
            reports.append(check_file_fully(task))
            shown.step(task.file.size)
        yield _without_digests(judge_partition(copies, reports))


def _without_digests(judged: Judgement) -> Judgement:
    """Drop the data per batch before the result leaves the task."""
    for report in judged.reports:
        report.digest = report.digest[:0]
        report.transactions = []
    judged.peak_bytes = peak_bytes()
    return judged


def _write(path: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    for row in rows:
        for name, value in row.items():
            if isinstance(value, dict):
                row[name] = list(value.items())
    columns = [pa.array([row.get(name) for row in rows], schema.field(name).type)
               for name in schema.names]  # fmt: skip
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), path, compression="zstd")


def _show(findings: list[Finding], limit: int) -> None:
    for finding in findings[:limit]:
        sys.stderr.write(finding.line() + "\n")
    if len(findings) > limit:
        sys.stderr.write(f"and {len(findings) - limit} more\n")
