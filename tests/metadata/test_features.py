"""Levels, names, record versions; bootstrap records; damaged snapshots."""

import pytest

from metadata import bootstrap, features
from metadata.image import EMPTY
from metadata.invariants import violations
from metadata.records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from metadata.schema import MetadataRecordError
from metadata.snapshot import decode_snapshot, encode_snapshot
from tests.metadata.golden_logs import GOLDEN


@pytest.mark.parametrize(
    ("name", "level"),
    [
        *[("3.0-IV1", 1), ("3.9-IV0", 21), ("3.9", 21), ("3.9.1", 21), ("3.7", 19), ("4.3", 30)],
        *[("21", 21), ("3.10", None), ("31", None), ("", None), ("IV0", None)],
    ],
)
def test_level_of_a_name(name, level):
    assert features.metadata_version_level(name) == level


def test_name_of_a_level():
    assert features.metadata_version_name(30) == "4.3-IV0"
    assert features.metadata_version_name(99) == "99"


def test_unsupported_features_are_named():
    finalized = {"metadata.version": 31, "share.version": 2, "kraft.version": 1, "x": 0}
    assert features.unsupported(finalized) == [
        "metadata.version is finalized at 31, supported is 7 to 30",
        "share.version is finalized at 2, supported is 0 to 1",
    ]


def test_controllers_support_what_kafka_4_3_does_and_brokers_what_they_serve():
    others = {
        "eligible.leader.replicas.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 30),
    }
    assert features.supported_features(is_controller=True) == {
        **others,
        "group.version": (0, 1),
        "share.version": (0, 1),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
    }
    without = ("share.version", "streams.version")
    assert features.supported_features(is_controller=False) == {
        **others,
        "group.version": (0, 1),
        "transaction.version": (0, 2),
        **dict.fromkeys(without, (0, 0)),
    }


@pytest.mark.parametrize(
    ("level", "others"),
    [
        *[(20, (0, 0, 0, 0, 0, 0)), (21, (1, 0, 0, 0, 0, 0)), (22, (1, 0, 1, 0, 0, 0))],
        *[(23, (1, 0, 1, 0, 0, 0)), (24, (1, 2, 1, 0, 0, 0)), (25, (1, 2, 1, 0, 0, 0))],
        *[(26, (1, 2, 1, 1, 0, 0)), (28, (1, 2, 1, 1, 1, 0)), (29, (1, 2, 1, 1, 1, 1))],
        (30, (1, 2, 1, 1, 1, 1)),
    ],
)
def test_levels_of_a_release_are_those_of_kafkas_enums(level, others):
    names = ("kraft", "transaction", "group", "eligible.leader.replicas", "share", "streams")
    found = features.release_levels(level)
    assert list(found) == ["metadata.version", *(f"{name}.version" for name in names)]
    assert tuple(found.values()) == (level, *others)
    without = ("share.version", "streams.version")
    served = {name: 0 if name in without else n for name, n in found.items()}
    assert features.served_levels(level) == served


def test_versions_by_level_are_those_seen_in_kafkas_logs():
    broker = RegisterBrokerRecord(broker_id=1, incarnation_id=bytes(16), broker_epoch=1)
    partition = PartitionRecord(topic_id=bytes(16))
    found = [features.record_version(broker, level) for level in (6, 7, 8, 16, 17, 29, 30)]
    assert found == [0, 1, 2, 2, 3, 3, 4]
    found = [features.record_version(partition, level) for level in (16, 17, 22, 23)]
    assert found == [0, 1, 1, 2]
    assert features.record_version(NoOpRecord(), 30) == 0


def test_registration_change_has_the_lowest_version_that_carries_it():
    for version, change in enumerate(
        (
            {"fenced": 1},
            {"in_controlled_shutdown": 1},
            {"log_dirs": (bytes(16),)},
            {"cordoned_log_dirs": ()},
        )
    ):
        record = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, **change)
        assert features.record_version(record, 30) == version


def test_bootstrap_records():
    records = bootstrap.bootstrap_records(
        21, {"z.version": 2, "a.version": 1, "off.version": 0, "kraft.version": 1}
    )
    assert [record.name for record in records] == ["metadata.version", "a.version", "z.version"]
    assert bootstrap.bootstrap_level(records) == 21


def test_bootstrap_without_a_level():
    with pytest.raises(MetadataRecordError, match="no FeatureLevelRecord"):
        bootstrap.bootstrap_level([])
    with pytest.raises(MetadataRecordError, match=r"before 3\.3-IV0"):
        bootstrap.bootstrap_level([FeatureLevelRecord(name="metadata.version", feature_level=3)])


def test_damaged_snapshots():
    content = (GOLDEN / "static-3.9.1" / "bootstrap.checkpoint").read_bytes()
    assert decode_snapshot(content).records
    with pytest.raises(MetadataRecordError):
        decode_snapshot(b"")
    with pytest.raises(MetadataRecordError, match="cut"):
        decode_snapshot(content[:-1])
    with pytest.raises(MetadataRecordError, match="checksum"):
        decode_snapshot(content[:100] + bytes((content[100] ^ 1,)) + content[101:])
    with pytest.raises(MetadataRecordError, match="after its footer"):
        decode_snapshot(content + content)
    parts = list(
        encode_snapshot(
            [NoOpRecord()] * 2049,
            level=21,
            epoch=1,
            last_contained_timestamp_ms=1,
            timestamp_ms=2,
        )
    )
    assert len(parts) == 5
    assert len(decode_snapshot(b"".join(parts)).records) == 2049
    with pytest.raises(MetadataRecordError, match="footer"):
        decode_snapshot(b"".join(parts[:-1]))
    with pytest.raises(MetadataRecordError, match="header"):
        decode_snapshot(b"".join(parts[1:]))


def test_invariants_of_the_empty_image():
    assert violations(EMPTY) == []
