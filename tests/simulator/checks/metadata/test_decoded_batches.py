"""Decoding once gives what decoding each time gives, errors included."""

import pytest

from metadata import record_codec
from metadata.loader import committed_batches
from metadata.records import NoOpRecord, TopicRecord
from metadata.schema import MetadataRecordError
from simulator.checks.metadata.decoded_batches import DecodedBatches
from wire.batches.batch import encode_batch, encode_control_batch
from wire.batches.control_records import ControlType
from wire.errors import CorruptBatchError

TOPIC = record_codec.encode(TopicRecord(name="t", topic_id=bytes(range(16))), 0)
NO_OP = record_codec.encode(NoOpRecord(), 0)
LOG = b"".join(
    (
        encode_batch([TOPIC, NO_OP], 0, 1, 5),
        encode_control_batch([(ControlType.LEADER_CHANGE, b"\0" * 8)], 2, 2, 6),
        encode_batch([NO_OP], 3, 2, 7),
    )
)


def test_equal_to_the_loaders_and_decoded_once() -> None:
    decoded = DecodedBatches()
    first, again = list(decoded(LOG)), list(decoded(LOG))
    assert first == list(committed_batches(LOG))
    assert all(one is other for one, other in zip(first, again, strict=True))


def test_a_log_that_is_cut_anywhere_gives_its_whole_batches() -> None:
    for end in range(len(LOG)):
        decoded = DecodedBatches()
        list(decoded(LOG))
        for reader in (decoded, DecodedBatches()):
            assert list(reader(LOG[:end])) == list(committed_batches(LOG[:end])), f"{end=}"


@pytest.mark.parametrize(
    ("position", "byte"), [(16, 9), (8, 0xFF), (11, 3), (11, 30), (70, 0xEE), (9, 1)]
)
def test_damage_is_what_the_loader_finds(position: int, byte: int) -> None:
    damaged = LOG[:position] + bytes([byte]) + LOG[position + 1 :]
    decoded = DecodedBatches()
    list(decoded(LOG))
    try:
        expected = list(committed_batches(damaged))
    except (CorruptBatchError, MetadataRecordError) as error:
        with pytest.raises(type(error)):
            list(decoded(damaged))
    else:
        assert list(decoded(damaged)) == expected
