"""Steps of an audit: the list of files to check, the check of a file, the comparison of replicas.

`plan_audit` lists; `check_file_fully` is the work of one task; `judge_partition` compares the
results of the tasks of one partition, on all nodes. Only values that can be pickled pass between.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pipeline.core.audit.check_directory import check_directory
from pipeline.core.audit.check_indexes import check_indexes
from pipeline.core.audit.check_partition import check_partition
from pipeline.core.audit.check_replicas import Comparison, Replica, compare_replicas
from pipeline.core.audit.check_segment import check_file, with_findings
from pipeline.core.audit.findings import ERROR, FileReport, Finding
from pipeline.core.reading.discovery import Listing, PartitionFiles, SegmentFile, discover
from pipeline.core.reading.watermark import inferred_from_batches, one_log_a_voter
from wire.types import METADATA_TOPIC_NAME

Key = tuple[str, int]


class AuditTask(msgspec.Struct, frozen=True):
    """One file to check."""

    file: SegmentFile
    is_cleaned: bool
    is_full: bool

    @property
    def key(self) -> Key:
        """Partition of the file."""
        return self.file.topic, self.file.partition


class AuditPlan(msgspec.Struct, frozen=True):
    """Files that an audit will check, and the findings of the log directories themselves."""

    listing: Listing
    tasks: tuple[AuditTask, ...]
    copies: dict[Key, tuple[PartitionFiles, ...]]
    findings: tuple[Finding, ...]

    @property
    def bytes(self) -> int:
        """Bytes that the tasks will read."""
        return sum(task.file.size for task in self.tasks)


class Judgement(msgspec.Struct):
    """Results for one partition: findings of its files and between them, and the file reports.

    `peak_bytes` is the largest memory of the processes that reported it, `read_bytes` the size of
    the files that were read, where some were known.
    """

    findings: list[Finding]
    comparison: Comparison
    reports: list[FileReport]
    peak_bytes: int = 0
    read_bytes: int = 0


def plan_audit(
    paths: Sequence[str], *, full: bool = False, committed: dict[int, int] | None = None
) -> AuditPlan:
    """List the input of an audit.

    Args:
        paths: log directories, folders of such, partition directories or files.
        full: decode the records too.
        committed: node id -> its high watermark of the metadata log, as the node reports it.

    Raises:
        BadInputError: a path that does not exist, or several clusters below one input.
    """
    listing = discover(paths, include_snapshots=True, strict=False)
    grouped: dict[Key, list[PartitionFiles]] = defaultdict(list)
    homes: dict[str, list[PartitionFiles]] = defaultdict(list)
    for copy in listing.partitions:
        found = copy
        if copy.topic == METADATA_TOPIC_NAME and copy.node_id in (committed or {}):
            assert committed is not None
            assert copy.node_id is not None
            found = msgspec.structs.replace(copy, high_watermark=committed[copy.node_id])
        home = copy.directory.rpartition("/")[0] or "."
        homes[home].append(found)
        if not copy.directory.endswith(".checkpoint"):  # bootstrap.checkpoint: by its directory
            grouped[copy.topic, copy.partition].append(found)
    tasks = [
        AuditTask(file, any(copy.is_cleaned for copy in copies), full)
        for copies in grouped.values()
        for copy in copies
        for file in (*copy.segments, *copy.snapshots)
    ]
    findings = [
        finding for home, copies in sorted(homes.items()) for finding in _home(home, copies)
    ]
    findings += _twice(homes)
    return AuditPlan(
        listing, tuple(tasks), {key: tuple(copies) for key, copies in grouped.items()},
        tuple(findings),
    )  # fmt: skip


def check_file_fully(task: AuditTask) -> FileReport:
    """Check one file and the indexes beside it."""
    report = check_file(task.file, is_cleaned=task.is_cleaned, full=task.is_full)
    return with_findings(report, check_indexes(report, is_cleaned=task.is_cleaned))


def judge_partition(copies: Sequence[PartitionFiles], reports: Sequence[FileReport]) -> Judgement:
    """Compare the files of each replica, then the replicas."""
    is_cleaned = any(copy.is_cleaned for copy in copies)
    found = Judgement([], Comparison([], []), list(reports))
    replicas = []
    for copy in copies:
        own = [report for report in reports if report.file.directory == copy.directory]
        found.findings += [finding for report in own for finding in report.findings]
        found.findings += check_partition(copy, own, is_cleaned=is_cleaned)
        segments = sorted(
            (report for report in own if not report.file.is_snapshot),
            key=lambda report: report.file.base_offset,
        )
        replicas.append(Replica(copy, tuple(segments)))
    if len(replicas) > 1:
        found.comparison = compare_replicas(replicas, _inferred(replicas))
        found.findings += found.comparison.findings
    return found


def _inferred(replicas: Sequence[Replica]) -> int | None:
    """Infer the committed end of the metadata log from the files of its voters."""
    if replicas[0].copy.topic != METADATA_TOPIC_NAME:
        return None
    voters = max((report.voters for replica in replicas for report in replica.reports
                  if report.voters), default=None)  # fmt: skip
    if voters is None:
        return None
    logs = one_log_a_voter(
        (replica.copy.node_id, {
            batch
            for report in replica.reports
            for batch in zip((report.digest["last"] + 1).tolist(),
                             report.digest["epoch"].tolist(), report.digest["crc"].tolist(),
                             strict=True)
        })
        for replica in replicas
        if replica.copy.node_id in voters[1]
    )  # fmt: skip
    return inferred_from_batches(logs, len(voters[1]))


def _home(home: str, copies: list[PartitionFiles]) -> list[Finding]:
    """Check the files of a log directory; a partition directory given alone has none above it."""
    is_log_directory = Path(home, "meta.properties").exists() or any(
        copy.topic == METADATA_TOPIC_NAME and copy.partition == 0 for copy in copies
    )
    return check_directory(home, copies) if is_log_directory else []


def _twice(homes: dict[str, list[PartitionFiles]]) -> list[Finding]:
    """Find directories with the same partition of the same node."""
    seen: dict[tuple[str, int, int], str] = {}
    findings = []
    for home, copies in sorted(homes.items()):
        for copy in copies:
            if copy.node_id is None or copy.directory.endswith(".checkpoint"):
                continue
            key = copy.topic, copy.partition, copy.node_id
            other = seen.setdefault(key, home)
            if other != home:
                findings.append(
                    Finding(severity=ERROR, check="node_twice", path=f"{home}/meta.properties",
                            node_id=copy.node_id, topic=copy.topic, partition=copy.partition,
                            detail=f"{other} is a log directory of the same node and has the same"
                            " partition")
                )  # fmt: skip
    return findings
