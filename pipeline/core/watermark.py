"""How far a partition is committed, as far as its files tell.

For an ordinary partition that is the broker's `replication-offset-checkpoint`, a few seconds old at
worst and never too high. The metadata log has no such file: there the offset up to which a majority
of the voters hold the same batches is taken, from the folders given ("inferred": a leader may not
know yet that it is committed, but no election can undo what a majority holds in its own epoch).
Copies that do not hold that end alike are not to be read: what they hold below it may be a tail of
an old leader that its node will cut.
"""

from collections.abc import Iterable, Sequence

from pipeline.core.batches import scan
from pipeline.core.decode import decode_batch_py
from pipeline.core.discovery import PartitionFiles
from pipeline.core.opening import open_segment
from wire.batch import CONTROL_BIT
from wire.control_records import ControlType, control_type, decode_control_value
from wire.errors import CorruptBatchError
from wire.types import METADATA_TOPIC_NAME

_Batch = tuple[int, int, int]  # end offset, epoch, checksum


def committed_copies(
    copies: Sequence[PartitionFiles],
) -> tuple[int | None, list[PartitionFiles]]:
    """The exclusive committed end over all copies of a partition, and the copies that hold it.

    Without anything that tells the end is None, and any copy may be read.
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
    batches = {copy.directory: _batches(copy) for copy in copies}
    logs = one_log_a_voter((copy.node_id, batches[copy.directory]) for copy in voting)
    last = _last_of_majority(logs, len(voters))
    if last is None:
        return min(copy.first_offset for copy in copies), list(copies)
    return last[0], [copy for copy in copies if last in batches[copy.directory]]


def watermark_of_nodes(
    copies: Sequence[PartitionFiles], committed: dict[int, int]
) -> tuple[int, list[PartitionFiles]]:
    """The committed end of the metadata log that running nodes tell, and the copies to read.

    Below its own high watermark a node has what is committed, so its copy is the one to read; when
    no copy is that of a node that answered, any may be.

    Args:
        copies: replicas of the metadata log.
        committed: node id -> high watermark, exclusive; not empty.
    """
    told = [copy for copy in copies if copy.node_id in committed]
    best = max((committed[copy.node_id] for copy in told if copy.node_id is not None), default=None)
    if best is None:
        return max(committed.values()), list(copies)
    return best, [copy for copy in told if copy.node_id is not None
                  and committed[copy.node_id] == best]  # fmt: skip


def one_log_a_voter(logs: Iterable[tuple[int | None, set[_Batch]]]) -> list[set[_Batch]]:
    """Of several copies of one node (a backup beside the folder) the most recent: one vote a node.

    Args:
        logs: node id and (end offset, epoch, checksum) of the batches of each copy.
    """
    best: dict[int | None, tuple[tuple[int, int], set[_Batch]]] = {}
    for node_id, log in logs:
        age = max(((epoch, end) for end, epoch, _ in log), default=(-1, -1))
        if node_id not in best or age > best[node_id][0]:
            best[node_id] = age, log
    return [log for _, log in best.values()]


def inferred_from_batches(logs: Sequence[set[_Batch]], voters: int, first: int = 0) -> int | None:
    """The end that a majority holds alike; None when too few logs are there to tell.

    Args:
        logs: one of each voter at hand (`one_log_a_voter`): (end offset, epoch, checksum) of its
            batches.
        voters: how many voters there are in all.
        first: the answer when a majority is there and holds nothing in common.
    """
    if not _is_majority(len(logs), voters):
        return None
    last = _last_of_majority(logs, voters)
    return first if last is None else last[0]


def _is_majority(count: int, voters: int) -> bool:
    return voters > 0 and count > voters // 2


def _last_of_majority(logs: Sequence[set[_Batch]], voters: int) -> _Batch | None:
    """The last batch that a majority holds alike."""
    counted: dict[_Batch, int] = {}
    for log in logs:
        for batch in log:
            counted[batch] = counted.get(batch, 0) + 1
    return max((batch for batch, count in counted.items() if count > voters // 2), default=None)


def _batches(copy: PartitionFiles) -> set[_Batch]:
    """(end offset, epoch, checksum) of every batch."""
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
    """The offset and the voters of the last leader change; (-1, nobody) without one."""
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
