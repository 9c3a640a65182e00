"""The order of the batches of a snapshot: the header before every record."""

import pytest

from metadata.image import EMPTY
from metadata.record_codec import encode
from metadata.records import NoOpRecord
from metadata.schema import MetadataRecordError
from metadata.snapshot import encode_snapshot, snapshot_records
from metadata.snapshot_decoder import SnapshotDecoder
from wire.batches.batch import encode_batch
from wire.types import LeaderEpoch, Offset


def test_records_before_the_header_are_damage() -> None:
    parts = encode_snapshot(
        snapshot_records(EMPTY), level=21, epoch=1, last_contained_timestamp_ms=1, timestamp_ms=1
    )
    decoder = SnapshotDecoder()
    decoder.feed(encode_batch([encode(NoOpRecord(), 0)], Offset(0), LeaderEpoch(1), 0))
    decoder.feed(b"".join(parts))
    with pytest.raises(MetadataRecordError, match="does not begin with its header"):
        list(decoder.records())
