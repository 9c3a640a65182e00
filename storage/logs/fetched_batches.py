"""The batches of a fetched response that may be appended, and how they are written.

apache/kafka: storage/.../log/UnifiedLog.java (`analyzeAndValidateRecords`, origin REPLICATION)
"""

from storage.logs.recovery import BatchRules
from storage.segments.rolling import RELATIVE_OFFSET_MAX
from wire.batches.batch import BatchFrame
from wire.batches.log_batches import is_sound
from wire.errors import CorruptBatchError


def acceptable(
    view: memoryview, rules: BatchRules, epoch_max: int, batch_bytes_max: int
) -> tuple[list[BatchFrame], str | None]:
    """The batches up to the first that cannot follow, and why that one cannot; None if all can."""
    assert epoch_max >= 0, f"{epoch_max=}"
    taken: list[BatchFrame] = []
    end = 0
    try:
        for frame in rules.frames(view):
            last, epoch = frame.last_offset, frame.leader_epoch
            crc_is_valid = is_sound(view, frame)
            objection = rules.objection(frame.base_offset, last, epoch, crc_is_valid=crc_is_valid)
            if epoch > epoch_max:
                objection = f"leader epoch {epoch} is above {epoch_max}"
            elif frame.size_bytes > batch_bytes_max:
                objection = f"a batch of {frame.size_bytes} bytes is too large"
            if objection is not None:
                return taken, objection
            rules.accept(last, epoch)
            taken.append(frame)
            end = frame.end_position
    except CorruptBatchError as error:
        return taken, str(error)
    return taken, None if end == len(view) else "the last batch is cut"


def groups_that_fit(
    frames: list[BatchFrame], room_bytes: int, segment_bytes: int
) -> list[list[BatchFrame]]:
    """Split the frames into groups that each fit into a segment, if possible.

    Args:
        frames: of one buffer, in order.
        room_bytes: left in the active segment; negative if it is too large already.
        segment_bytes: `segment.bytes`.
    """
    if not frames:
        return []
    assert segment_bytes > 0, f"{segment_bytes=}"
    groups: list[list[BatchFrame]] = []
    first, last = frames[0].base_offset, frames[-1]
    if last.end_position <= room_bytes and last.last_offset - first <= RELATIVE_OFFSET_MAX:
        return [frames]
    for frame in frames:
        size = frame.size_bytes
        is_far = frame.last_offset - first > RELATIVE_OFFSET_MAX
        if not groups or size > room_bytes or is_far:
            if size > room_bytes or is_far:
                room_bytes = segment_bytes
            groups.append([])
            first = frame.base_offset
        assert frame.last_offset >= first, f"{frame=} {first=}"
        groups[-1].append(frame)
        room_bytes -= size
    return groups
