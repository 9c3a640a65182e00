"""Committed end of a partition, as far as its files show it.

For an ordinary partition that is the broker's `replication-offset-checkpoint`, a few seconds old at
most and never too high. The metadata log has no such file: there the committed end is the offset up
to which a majority of the voters have the same batches in the given folders and which no election
among them can undo ("inferred": a leader may not know yet that it is committed). Copies without
that end are not to be read: below it they may hold the tail of an old leader, which its node will
truncate.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from pipeline.core.reading.discovery import PartitionFiles
from pipeline.core.reading.opening import open_segment
from pipeline.core.records.batches import scan
from pipeline.core.records.decode import decode_batch_py
from wire.batches.batch import CONTROL_BIT
from wire.batches.control_records import ControlType, control_type, decode_control_value
from wire.errors import CorruptBatchError
from wire.types import METADATA_TOPIC_NAME

_Batch = tuple[int, int, int]  # end offset, epoch, checksum


def committed_copies(
    copies: Sequence[PartitionFiles],
) -> tuple[int | None, list[PartitionFiles]]:
    """The exclusive committed end over all copies of a partition, and the copies that have it.

    If no file shows it the end is None, and any copy may be read.
    """
    known = [copy.high_watermark for copy in copies if copy.high_watermark is not None]
    if known:
        return max(known), [copy for copy in copies if copy.high_watermark == max(known)]
    if copies[0].topic != METADATA_TOPIC_NAME:
        return None, list(copies)
    voters = max((_voters(copy) for copy in copies), key=lambda found: found[0])[1]
    voting = [copy for copy in copies if copy.node_id in voters]
    if not _is_majority(len({copy.node_id for copy in voting}), len(voters)):
        return None, list(copies)
    batches = {copy.directory: batches_of(copy) for copy in copies}
    logs = one_log_a_voter((copy.node_id, batches[copy.directory]) for copy in voting)
    last = _last_of_majority(logs, len(voters))
    if last is None:
        return min(copy.first_offset for copy in copies), list(copies)
    return last[0], [copy for copy in copies if last in batches[copy.directory]]


def watermark_of_nodes(
    copies: Sequence[PartitionFiles], committed: dict[int, int]
) -> tuple[int, list[PartitionFiles]]:
    """The committed end of the metadata log reported by running nodes, and the copies to read.

    Below its own high watermark a node has all committed records, so its copy is the one to read;
    if no copy belongs to a node that answered, any copy may be read.

    Args:
        copies: replicas of the metadata log.
        committed: node id -> high watermark, exclusive; not empty.
    """
    asked = [copy for copy in copies if copy.node_id in committed]
    best = max(
        (committed[copy.node_id] for copy in asked if copy.node_id is not None), default=None
    )
    if best is None:
        return max(committed.values()), list(copies)
    return best, [copy for copy in asked if copy.node_id is not None
                  and committed[copy.node_id] == best]  # fmt: skip


def one_log_a_voter(logs: Iterable[tuple[int | None, set[_Batch]]]) -> list[set[_Batch]]:
    """Keep the newest of several copies of one node (such as a backup), so that a node counts once.

    Args:
        logs: node id and (end offset, epoch, checksum) of the batches of each copy.
    """
    best: dict[int | None, tuple[tuple[int, int], set[_Batch]]] = {}
    for node_id, log in logs:
        age = _age(log)
        if node_id not in best or age > best[node_id][0]:
            best[node_id] = age, log
    return [log for _, log in best.values()]


def inferred_from_batches(logs: Sequence[set[_Batch]], voters: int, first: int = 0) -> int | None:
    """The end that a majority has in common for good; None with too few logs for a majority.

    Args:
        logs: one for each available voter (`one_log_a_voter`): (end offset, epoch, checksum) of its
            batches.
        voters: number of all voters.
        first: the result for a majority that has nothing in common.
    """
    if not _is_majority(len(logs), voters):
        return None
    last = _last_of_majority(logs, voters)
    return first if last is None else last[0]


def _is_majority(count: int, voters: int) -> bool:
    return voters > 0 and count > voters // 2


def _last_of_majority(logs: Sequence[set[_Batch]], voters: int) -> _Batch | None:
    """The last batch that a majority has in common and that no election can undo.

    A majority may have a batch that is not committed: followers fetched it from a later leader, but
    nothing of that leader's own epoch yet, and a voter without it whose last epoch is higher can
    still be elected (Raft, figure 8). So each available voter that can be elected must have the
    batch; voters without a log here are taken to grant their votes.
    """
    counted = Counter(batch for log in logs for batch in log)
    common = sorted((one for one, count in counted.items() if count > voters // 2), reverse=True)
    ages = [_age(log) for log in logs]
    absent = voters - len(logs)
    electable = [
        log for log, age in zip(logs, ages, strict=True)
        if absent + sum(other <= age for other in ages) > voters // 2
    ]  # fmt: skip
    # Below its first batch a log has what is committed: a snapshot took its place.
    starts = [min((end for end, _, _ in log), default=0) for log in electable]
    # Other bytes at the same offset and epoch are damage, not another history.
    points = [{(end, epoch) for end, epoch, _ in log} for log in electable]
    for end, epoch, crc in common:
        if all(end < start or (end, epoch) in held
               for start, held in zip(starts, points, strict=True)):  # fmt: skip
            return end, epoch, crc
    return None


def _age(log: set[_Batch]) -> tuple[int, int]:
    """Last epoch and end offset of a log: votes go to the higher one."""
    return max(((epoch, end) for end, epoch, _ in log), default=(-1, -1))


def batches_of(copy: PartitionFiles) -> set[_Batch]:
    """Return (end offset, epoch, checksum) of every batch."""
    found: set[_Batch] = set()
    for file in copy.segments:
        with open_segment(file.path) as descriptor:
            for table in scan(
                descriptor, 0, file.size, frozen_size=file.size, is_last=file.is_last,
                validate="header",
            ):  # fmt: skip
                ends = (table.last_offsets + 1).tolist()
                epochs = table.column("leader_epoch").tolist()
                found.update(zip(ends, epochs, table.column("crc").tolist(), strict=True))
    return found


def _voters(copy: PartitionFiles) -> tuple[int, frozenset[int]]:
    """Offset and voters of the last leader change; (-1, empty) without one."""
    found: tuple[int, frozenset[int]] = (-1, frozenset())
    for file in copy.segments:
        with open_segment(file.path) as descriptor:
            for table in scan(
                descriptor, 0, file.size, frozen_size=file.size, is_last=file.is_last,
                validate="header",
            ):  # fmt: skip
                control = (table.headers["attributes"] & CONTROL_BIT) != 0
                for index in control.nonzero()[0].tolist():
                    try:
                        for record in decode_batch_py(table, index):
                            if control_type(record.key) is ControlType.LEADER_CHANGE:
                                change = decode_control_value(
                                    ControlType.LEADER_CHANGE, record.value or b""
                                )
                                ids = frozenset(int(voter.voter_id) for voter in change.voters)
                                found = (int(record.offset), ids)
                    except CorruptBatchError:
                        continue
    return found
