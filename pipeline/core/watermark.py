"""How far a partition is committed, as far as its files tell.

For an ordinary partition that is the broker's `replication-offset-checkpoint`, a few seconds old at
worst and never too high. The metadata log has no such file: there the offset up to which a majority
of the voters hold the same batches is taken, from the folders given ("inferred": a leader may not
know yet that it is committed, but no election can undo what a majority holds in its own epoch).
"""

from collections.abc import Sequence

from pipeline.core.batches import scan
from pipeline.core.decode import decode_batch_py
from pipeline.core.discovery import PartitionFiles
from pipeline.core.opening import open_segment
from wire.batch import CONTROL_BIT
from wire.control_records import ControlType, control_type, decode_control_value
from wire.errors import CorruptBatchError
from wire.types import METADATA_TOPIC_NAME


def high_watermark(copies: Sequence[PartitionFiles]) -> int | None:
    """The exclusive committed end over all copies of a partition; None when nothing tells."""
    known = [copy.high_watermark for copy in copies if copy.high_watermark is not None]
    if known:
        return max(known)
    if copies[0].topic != METADATA_TOPIC_NAME:
        return None
    voters = max((_voters(copy) for copy in copies), key=lambda found: found[0])[1]
    logs = [_batches(copy) for copy in copies if copy.node_id in voters]
    first = min(copy.first_offset for copy in copies)
    return inferred_from_batches(logs, len(voters), first)


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


def inferred_from_batches(
    logs: Sequence[set[tuple[int, int, int]]], voters: int, first: int = 0
) -> int | None:
    """The end that a majority holds alike; None when too few logs are there to tell.

    Args:
        logs: of each voter at hand: (end offset, epoch, checksum) of its batches.
        voters: how many voters there are in all.
        first: the answer when a majority is there and holds nothing in common.
    """
    majority = voters // 2 + 1
    if not voters or len(logs) < majority:
        return None
    counted: dict[tuple[int, int, int], int] = {}
    for log in logs:
        for batch in log:
            counted[batch] = counted.get(batch, 0) + 1
    held = [end for (end, _, _), count in counted.items() if count >= majority]
    return max(held, default=first)


def _batches(copy: PartitionFiles) -> set[tuple[int, int, int]]:
    """(end offset, epoch, checksum) of every batch."""
    found: set[tuple[int, int, int]] = set()
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
