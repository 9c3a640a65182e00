"""Check that a snapshot is whole: it begins with its header and ends with its footer."""

from pipeline.core.errors import BadInputError
from pipeline.core.reading.discovery import SegmentFile
from pipeline.core.reading.opening import open_segment
from pipeline.core.records.batches import BatchTable, scan
from pipeline.core.records.decode import decode_batch_py
from wire.batches.batch import CONTROL_BIT
from wire.batches.control_records import ControlType, control_type
from wire.errors import CorruptBatchError


def check_snapshot(file: SegmentFile) -> None:
    """Refuse a snapshot that was cut: objects missing from it would look like removed ones.

    Headers and checksums are read, and the records of the first and the last batch.

    Raises:
        BadInputError: it is empty, damaged, or lacks its header or footer.
        OSError: it cannot be read.
    """
    first = last = None
    with open_segment(file.path) as descriptor:
        for table in scan(
            descriptor, 0, file.size, frozen_size=file.size, is_last=False, validate="crc"
        ):
            if table.fault is not None:
                at = f"{file.path}:{table.fault.position}"
                raise BadInputError(f"{at}: damaged snapshot: {table.fault.reason}")
            if len(table):
                first = _control_type(table, 0, 0) if first is None else first
                last = _control_type(table, len(table) - 1, -1)
    if first is not ControlType.SNAPSHOT_HEADER:
        raise BadInputError(f"{file.path}: damaged snapshot: it does not begin with its header")
    if last is not ControlType.SNAPSHOT_FOOTER:
        raise BadInputError(f"{file.path}: truncated snapshot: it does not end with its footer")


def _control_type(table: BatchTable, index: int, record: int) -> ControlType | None:
    """Control type of a batch's first (0) or last (-1) record; None in a batch of data."""
    if not int(table.column("attributes")[index]) & CONTROL_BIT:
        return None
    try:
        return control_type(decode_batch_py(table, index)[record].key)
    except (CorruptBatchError, IndexError):
        return None
