"""Check that the log given to `--append` is the one that the archive was fed from.

An archive cannot be rebuilt, so nothing is appended before that is known. It keeps the cluster id
and the last batch that it has read. By Raft's log matching one batch is enough: if two logs
have a batch of the same epoch at the same offset, all before it is equal. A log that no longer
has that batch must match by the cluster id or a snapshot, and no snapshot beside it
may contradict the archive.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from pipeline.core.errors import BadInputError, CorruptSegmentError, DataLossError
from pipeline.core.reading.discovery import PartitionFiles, SegmentFile
from pipeline.core.reading.log_positions import locate
from pipeline.core.reading.opening import input_errors, open_segment
from pipeline.core.records.batches import scan
from pipeline.jobs.history.check import Compared, print_differences
from pipeline.jobs.history.input import LogChoice
from pipeline.jobs.history.query import counters

STATE_NAME: Final = "state"
_NAME: Final = "log.json"
# flag, its counter, description of an archive with it and without
_LASTING_FLAGS: Final = (
    ("--intra-batch", "intra_batch", "keeps every state of a batch",
     "keeps the last state of a batch"),
    ("--reveal", "reveal", "shows secrets", "hides secrets"),
)  # fmt: skip


class LastBatch(msgspec.Struct, frozen=True):
    """A batch of the log; `end` is the offset after its last record, `crc` that of its header."""

    base: int
    end: int
    epoch: int
    crc: int


class ArchivedLog(msgspec.Struct, frozen=True):
    """Identity of the log that an archive was fed from.

    `cluster_id` and `last` are None if unknown; `snapshots` are the names of those that
    were compared and agreed.
    """

    cluster_id: str | None = None
    last: LastBatch | None = None
    snapshots: tuple[str, ...] = ()


def archived_log(
    known: ArchivedLog, choice: LogChoice, end: int, agreeing: Sequence[str]
) -> ArchivedLog:
    """Identity of an archive's log after a run.

    Args:
        known: identity before the run.
        choice: the log of the run.
        end: the archive's exclusive end offset.
        agreeing: names of the snapshots that agree with it.
    """
    there = {one.name for one in choice.partition.snapshots}
    seed = () if choice.seed is None else (choice.seed.name,)
    names = {*known.snapshots, *agreeing, *seed} & there
    try:
        last = batch_before(choice.partition, end) or known.last
    except CorruptSegmentError:  # it was left out: cluster id and snapshots tell of this log
        last = None
    return ArchivedLog(choice.cluster_id or known.cluster_id, last, tuple(sorted(names)))


def write_archived_log(state: Path, log: ArchivedLog) -> None:
    """Write the identity of the log for the next append."""
    (state / _NAME).write_bytes(msgspec.json.encode(log))


def _read_archived_log(state: Path) -> ArchivedLog:
    path = state / _NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=ArchivedLog)
    except (OSError, ValueError, RecursionError) as error:
        raise BadInputError(f"{path}: can not be read, so nothing can be appended") from error


@input_errors()
def batch_before(copy: PartitionFiles, offset: int) -> LastBatch | None:
    """The batch with the record before an offset; None if the files begin later.

    Raises:
        BadInputError: a file that cannot be read.
        CorruptSegmentError: the batch is damaged.
    """
    for file in reversed(copy.segments):
        if file.base_offset < offset:
            return _batch_of(file, offset - 1)
    return None


def _batch_of(file: SegmentFile, offset: int) -> LastBatch | None:
    start = locate(file, offset)
    with open_segment(file.path) as descriptor:
        for table in scan(
            descriptor, start, start + 1, frozen_size=file.size, is_last=True, validate="crc"
        ):
            for one in table.refs():
                if one.base_offset <= offset <= one.last_offset:
                    return LastBatch(one.base_offset, one.last_offset + 1, one.epoch, one.crc)
            if table.fault is not None:
                fault = table.fault
                raise CorruptSegmentError(
                    file.path, fault.position, fault.base_offset, fault.reason
                )
    return None


class Archive:
    """One version of an archive that a run continues.

    Args:
        root: folder of the version.
        name: name of the archive for messages.

    Raises:
        BadInputError: the identity of its log cannot be read.
    """

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.name = name
        self.log = _read_archived_log(root / STATE_NAME)
        self.counters = counters(root)
        self._is_same = False

    def check_flags(self, arguments: Namespace) -> None:
        """Check that flags with an effect on rows are the same as in the first run.

        Raises:
            BadInputError: a flag differs.
        """
        for flag, name, on, off in _LASTING_FLAGS:
            if self.counters[name] != int(getattr(arguments, name)):
                kept = on if self.counters[name] else off
                raise BadInputError(f"{self.name} {kept}; {flag} must be as when it began")

    def check_cluster(self, given: str, cluster_id: str | None) -> None:
        """Refuse what is of another cluster, where both say of which they are.

        Args:
            given: the input, for the message.
            cluster_id: what it says.

        Raises:
            BadInputError: another cluster; the text has both ids.
        """
        known = self.log.cluster_id
        if None not in (known, cluster_id) and cluster_id != known:
            raise BadInputError(
                f"{given} is of cluster {cluster_id}, the archive {self.name} is of cluster {known}"
            )

    def check(self, choice: LogChoice) -> LogChoice:
        """Refuse a log that is not the archive's; `choice.start` is the end of the archive.

        Returns:
            The choice with only the snapshots to compare: those since the archive's beginning
            that have not agreed in an earlier run.

        Raises:
            BadInputError: nothing identifies the log.
            DataLossError: another batch at the place of the archive's last one.
        """
        given, known = choice.partition.directory, self.log
        is_named = None not in (known.cluster_id, choice.cluster_id)  # then by the same id
        last = None if known.last is None else batch_before(choice.partition, choice.start)
        if last not in (None, known.last):
            assert last is not None
            assert known.last is not None
            raise DataLossError(
                f"{given}: before offset {choice.start} stands {_shown(last)}; the archive"
                f" {self.name} ends with {_shown(known.last)}: the log was cut and written anew, or"
                " is another one"
            )
        self._is_same = last is not None
        start = self.counters["start_offset"]
        snapshots = tuple(one for one in choice.others if one.base_offset >= start)
        if not (self._is_same or is_named or snapshots):
            raise BadInputError(
                f"{given} begins at offset {choice.start}, where the archive {self.name} ends;"
                " neither a cluster id nor a snapshot says that it is the same log"
            )
        new = tuple(one for one in snapshots if one.name not in known.snapshots)
        return msgspec.structs.replace(choice, others=new)

    def check_compared(self, choice: LogChoice, compared: Compared) -> None:
        """Refuse a log without the archive's last batch if a snapshot contradicts the archive.

        Raises:
            BadInputError: a snapshot does.
        """
        if compared.rows and not self._is_same:
            print_differences(compared.rows)
            raise BadInputError(
                f"{choice.partition.directory}: {compared.rows[0]['snapshot']} says otherwise than"
                f" the archive {self.name}, and the log no longer holds the archive's last batch:"
                " it is another log"
            )


def _shown(batch: LastBatch) -> str:
    return (
        f"a batch of offsets {batch.base} to {batch.end - 1}, leader epoch {batch.epoch},"
        f" crc {batch.crc}"
    )
