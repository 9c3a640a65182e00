"""The records of a Produce request for a partition: one batch.

apache/kafka: clients/.../requests/ProduceRequest.java (`validateRecords`); texts are those
of 4.3.1.
"""

import struct
from typing import Final

from storage.logs.log_validator import RejectedError
from wire.batches.batch import CODEC_MASK, MAGIC, Batch, iterate_batches
from wire.batches.compression import Codec
from wire.errors import CorruptBatchError, ErrorCode

ZSTD_VERSION_MIN: Final = 7
"""First version of Produce whose batches may be compressed by zstd (KIP-110)."""
_MAGIC_POSITION: Final = 16
_OLD_MAGICS: Final = (0, 1)  # of message sets
_MAGIC: Final = struct.Struct(">b")


def parse_produced(data: memoryview, version: int) -> Batch:
    """The one batch that a Produce request has for a partition.

    Args:
        data: `records` of the request; fewer than 17 bytes behind the batch are ignored.
        version: of the request, at least 3.

    Raises:
        RejectedError: none or several, or another format.
    """
    only = f"Produce requests with version {version} are only allowed to contain"
    if len(data) > _MAGIC_POSITION and data[_MAGIC_POSITION] != MAGIC:
        (magic,) = _MAGIC.unpack_from(data, _MAGIC_POSITION)
        if magic not in _OLD_MAGICS:
            text = f"Invalid magic found in record: {magic}"
            raise RejectedError(ErrorCode.corrupt_message, text, message=text)
        text = f"{only} record batches with magic version {MAGIC}"
        raise RejectedError(ErrorCode.invalid_record, text)
    try:
        batches = iterate_batches(data)
        batch = next(batches, None)
        is_only = batch is not None and next(batches, None) is None
    except CorruptBatchError as error:
        raise RejectedError(ErrorCode.corrupt_message, str(error)) from error
    if batch is None:
        text = f"Produce requests with version {version} must have at least one record batch"
        raise RejectedError(ErrorCode.invalid_record, f"{text} per partition")
    header = batch.header
    if header.attributes & CODEC_MASK == Codec.ZSTD and version < ZSTD_VERSION_MIN:
        text = f"Produce requests with version {version} are not allowed to use ZStandard"
        raise RejectedError(ErrorCode.unsupported_compression_type, f"{text} compression")
    if not is_only:
        text = f"{only} exactly one record batch per partition"
        raise RejectedError(ErrorCode.invalid_record, text)
    return batch
