"""Byte equality with Kafka's serializer, and a clear error for everything that is not a record."""

import json
from pathlib import Path

import msgspec
import pytest

from metadata import json_form, record_codec
from metadata.json_source import record_json_text
from metadata.records import (
    RECORD_TYPES,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisteredEndpoint,
    TopicRecord,
    UnknownRecord,
)
from metadata.schema import MetadataRecordError
from wire.types import BrokerEpoch, DirectoryId, NodeId, TopicId

GOLDEN = Path(__file__).parent.parent / "golden" / "metadata"
VECTORS = [json.loads(line) for line in (GOLDEN / "record-vectors.jsonl").read_text().splitlines()]
TOPIC_ID = TopicId(bytes(range(16, 32)))


def test_vectors_cover_every_record_and_version():
    seen = {(vector["api_key"], vector["version"]) for vector in VECTORS}
    declared = {
        (key, version)
        for key, cls in RECORD_TYPES.items()
        for version in range(cls.versions[0], cls.versions[1] + 1)
    }
    assert declared == seen


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['type']}-{v['version']}")
def test_kafkas_bytes_decode_and_encode_again(vector):
    raw = bytes.fromhex(vector["hex"])
    record = record_codec.decode(raw)
    assert record_codec.encode(record, vector["version"]) == raw
    assert record_codec.decode(memoryview(raw)) == record
    assert record_codec.decoded_version(raw) == vector["version"]
    form = json_form.to_json(record, vector["version"])
    assert form == {key: vector[key] for key in ("type", "version", "data")}
    assert json.dumps(form["data"]) == json.dumps(vector["data"])
    text = json_form.to_json_text(record, vector["version"])
    assert record_json_text(record, vector["version"]) == text


def test_every_truncation_is_an_error():
    for vector in VECTORS[::3]:
        raw = bytes.fromhex(vector["hex"])
        for size in range(len(raw)):
            with pytest.raises(MetadataRecordError):
                record_codec.decode(raw[:size])


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("00140000", "2.8 preview"),
        ("02140000", "unknown frame version 2"),
        ("01808002" + "0000", "api key 32768, which is too large"),
        ("0114808002" + "00", "version 32768, which is too large"),
        ("01ffffffffff01", "longer than 5 bytes"),
        ("01140100", "NoOpRecord has no version 1: 0 to 0 are known"),
        ("0114000000", "followed by 1 bytes of garbage"),
        ("", "cut inside its frame version"),
        ("01", "cut inside its api key"),
        ("011400", "cut or damaged"),
        ("010200" + "00" + "00" * 16 + "00", "TopicRecord.name is null"),
        ("01020002ff" + "00" * 16 + "00", "cut or damaged"),
        ("011700" + "010003" + "024100", "does not fill its size"),
        ("010300" + "00" * 4 + "00" * 16 + "ffffffff07", "array of"),
    ],
)
def test_garbage_is_named(raw, text):
    with pytest.raises(MetadataRecordError, match=text):
        record_codec.decode(bytes.fromhex(raw))


def test_unknown_type_is_kept():
    raw = bytes.fromhex("011d000000000700")
    record = record_codec.decode(raw)
    assert record == UnknownRecord(unknown_api_key=29, version=0, body=raw[3:])
    assert record_codec.encode(record, 0) == raw
    assert json_form.to_json(record, 0)["data"] == {"apiKey": 29, "hex": "0000000700"}
    assert record_json_text(record, 0) == json_form.to_json_text(record, 0)


def test_unknown_tags_survive_and_are_merged_in_order():
    # BrokerRegistrationChange v0 knows tag 0 only; tags 1 and 700 come from a newer writer.
    head = "011100" + "00000001" + "0000000000000008"
    raw = bytes.fromhex(head + "03" + "0001ff" + "010101" + "bc0502aabb")
    record = record_codec.decode(raw)
    assert record.unknown_tags == ((1, b"\x01"), (700, b"\xaa\xbb"))
    assert record_codec.encode(record, 0) == raw
    shuffled = bytes.fromhex(head + "03" + "bc0502aabb" + "010101" + "0001ff")
    assert record_codec.decode(shuffled) == record


def test_unknown_tags_of_a_nested_struct_survive():
    record = RegisterBrokerRecord(
        broker_id=NodeId(1),
        incarnation_id=bytes(16),
        broker_epoch=BrokerEpoch(2),
        end_points=(RegisteredEndpoint(name="A", host="h", port=65535, unknown_tags=((5, b"x"),)),),
    )
    assert record_codec.decode(record_codec.encode(record, 1)) == record


def test_tagged_default_written_anyway_is_accepted():
    head = "011100" + "00000001" + "0000000000000008"
    record = record_codec.decode(bytes.fromhex(head + "01" + "000100"))
    assert record_codec.encode(record, 0) == bytes.fromhex(head + "00")


def test_the_last_of_two_equal_tags_wins():
    head = "011100" + "00000001" + "0000000000000008"
    record = record_codec.decode(bytes.fromhex(head + "02" + "000101" + "0001ff"))
    assert record == BrokerRegistrationChangeRecord(
        broker_id=NodeId(1), broker_epoch=BrokerEpoch(8), fenced=-1
    )


def test_field_that_the_version_cannot_carry():
    record = PartitionRecord(
        topic_id=TOPIC_ID, replicas=(NodeId(1),), directories=(DirectoryId(bytes(16)),)
    )
    with pytest.raises(MetadataRecordError, match=r"PartitionRecord.directories .* version 0"):
        record_codec.encode(record, 0)
    assert record_codec.encode(record, 1)


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord(name=None, topic_id=TOPIC_ID),
        TopicRecord(name="a", topic_id=TopicId(b"short")),
        FeatureLevelRecord(name="f", feature_level=32768),
        FeatureLevelRecord(name="\ud800", feature_level=1),
        PartitionRecord(topic_id=TOPIC_ID, replicas=None),
        PartitionRecord(topic_id=TOPIC_ID, replicas=(NodeId(1 << 31),)),
    ],
)
def test_value_that_does_not_fit_its_type(record):
    with pytest.raises(MetadataRecordError):
        record_codec.encode(record, 0)


def test_version_that_does_not_exist():
    with pytest.raises(MetadataRecordError, match="no version 3"):
        record_codec.encode(PartitionRecord(topic_id=TOPIC_ID), 3)


def test_int16_minus_one_and_long_values():
    for record in (
        FeatureLevelRecord(name="x" * 200, feature_level=-1),
        ConfigRecord(resource_type=2, resource_name="t", name="é" * 9000, value=None),
        PartitionRecord(topic_id=TOPIC_ID, replicas=tuple(NodeId(n) for n in range(500))),
    ):
        assert record_codec.decode(record_codec.encode(record, 0)) == record


def test_uuid_text():
    assert json_form.uuid_from_text(json_form.uuid_text(TOPIC_ID)) == TOPIC_ID
    with pytest.raises(ValueError, match="22 characters"):
        json_form.uuid_from_text("abc")


def test_defaults_that_are_not_zero_are_those_of_kafka():
    """apache/kafka: metadata/src/main/resources/common/metadata/*.json."""
    found = {
        (kind.__name__, field.name): field.default
        for kind in RECORD_TYPES.values()
        for field in msgspec.structs.fields(kind)
        if field.default is not msgspec.NODEFAULT and field.default
    }
    assert found == {
        ("PartitionChangeRecord", "partition_id"): -1,
        ("PartitionChangeRecord", "leader"): -2,
        ("PartitionChangeRecord", "leader_recovery_state"): -1,
        ("PartitionRecord", "partition_id"): -1,
        ("PartitionRecord", "leader"): -1,
        ("PartitionRecord", "leader_epoch"): -1,
        ("PartitionRecord", "partition_epoch"): -1,
        ("ProducerIdsRecord", "broker_epoch"): -1,
        ("RegisterBrokerRecord", "fenced"): True,
    }
