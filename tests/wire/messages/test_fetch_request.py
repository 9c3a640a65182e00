"""Fetch requests of every version: what is read equals what kio wrote, and real Kafka's frames."""

import importlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader

from tests.wire.kio_frames import topic_id, written
from tests.wire.recorded_pairs import of_key
from wire.errors import RemoteProtocolError
from wire.messages import codec
from wire.messages.fetch_request import (
    VERSION_MAX,
    VERSION_MIN,
    RequestedPartition,
    decode_fetch_request,
)

FRAMES = [
    (pair["api_version"], bytes.fromhex(pair["request_hex"]))
    for pair in of_key(1)
    if VERSION_MIN <= pair["api_version"] <= VERSION_MAX
]
NUMBERS = st.integers(-1, 2**31 - 1)
OFFSETS = st.integers(-1, 2**63 - 1)
NAMES = st.text(min_size=1, max_size=140)
ROWS = st.builds(
    RequestedPartition,
    topic=st.just(""),
    partition=NUMBERS,
    fetch_offset=OFFSETS,
    max_bytes=NUMBERS,
    current_leader_epoch=NUMBERS,
    last_fetched_epoch=NUMBERS,
    log_start_offset=OFFSETS,
)
TOPICS = st.dictionaries(NAMES, st.lists(ROWS, max_size=3), max_size=3)


def schema(version):
    return importlib.import_module(f"kio.schema.fetch.v{version}.request")


def topic_field(version, name):
    return {"topic_id": topic_id(name)} if version >= 13 else {"topic": name}


def key_of(version, name):
    return topic_id(name).bytes if version >= 13 else name


def row_of(kio, version, row, directory):
    fields = {
        "partition": row.partition,
        "fetch_offset": row.fetch_offset,
        "partition_max_bytes": row.max_bytes,
    }
    for first, name in ((5, "log_start_offset"), (9, "current_leader_epoch"),
                        (12, "last_fetched_epoch")):  # fmt: skip
        if version >= first:
            fields[name] = getattr(row, name)
    if version >= 17:
        fields["replica_directory_id"] = directory
    if version >= 18:
        fields["high_watermark"] = row.fetch_offset
    return kio.FetchPartition(**fields)


def read_row(version, name, row):
    return RequestedPartition(
        topic=key_of(version, name),
        partition=row.partition,
        fetch_offset=row.fetch_offset,
        max_bytes=row.max_bytes,
        current_leader_epoch=row.current_leader_epoch if version >= 9 else -1,
        last_fetched_epoch=row.last_fetched_epoch if version >= 12 else -1,
        log_start_offset=row.log_start_offset if version >= 5 else -1,
    )


def request_bytes(version, topics, forgotten=None, *, directory=None, **values):
    kio = schema(version)
    values = {
        "replica_id": -1,
        "replica_epoch": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 0,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "rack_id": "",
        "cluster_id": None,
    } | values
    fields = {name: values[name] for name in ("min_bytes", "max_bytes", "isolation_level")}
    fields["max_wait"] = timedelta(milliseconds=values["max_wait_ms"])
    if version >= 15:
        fields["replica_state"] = kio.ReplicaState(
            replica_id=values["replica_id"], replica_epoch=values["replica_epoch"]
        )
    else:
        fields["replica_id"] = values["replica_id"]
    if version >= 7:
        fields["session_id"], fields["session_epoch"] = (
            values["session_id"],
            values["session_epoch"],
        )
        fields["forgotten_topics_data"] = tuple(
            kio.ForgottenTopic(partitions=tuple(numbers), **topic_field(version, name))
            for name, numbers in (forgotten or {}).items()
        )
    if version >= 11:
        fields["rack_id"] = values["rack_id"]
    if version >= 12:
        fields["cluster_id"] = values["cluster_id"]
    fields["topics"] = tuple(
        kio.FetchTopic(
            partitions=tuple(row_of(kio, version, row, directory) for row in rows),
            **topic_field(version, name),
        )
        for name, rows in topics.items()
    )
    return written(kio.FetchRequest(**fields))


@given(
    version=st.integers(VERSION_MIN, VERSION_MAX),
    topics=TOPICS,
    forgotten=st.dictionaries(NAMES, st.lists(NUMBERS, max_size=3), max_size=2),
    directory=st.none() | st.uuids().filter(lambda each: each.int != 0),
    values=st.fixed_dictionaries(
        {
            "replica_id": NUMBERS,
            "replica_epoch": OFFSETS,
            "max_wait_ms": st.integers(0, 2**31 - 1),
            "min_bytes": NUMBERS,
            "max_bytes": NUMBERS,
            "isolation_level": st.integers(0, 1),
            "session_id": NUMBERS,
            "session_epoch": NUMBERS,
            "rack_id": st.text(max_size=9),
            "cluster_id": st.none() | NAMES,
        }
    ),
    before=st.binary(max_size=3),
    behind=st.binary(max_size=3),
)
def test_requests_equal_kios(version, topics, forgotten, directory, values, before, behind):
    body = request_bytes(version, topics, forgotten, directory=directory, **values)
    read = decode_fetch_request(version, before + body + behind, len(before))
    assert read.replica_id == values["replica_id"]
    assert read.replica_epoch == (values["replica_epoch"] if version >= 15 else -1)
    assert (read.max_wait_ms, read.min_bytes) == (values["max_wait_ms"], values["min_bytes"])
    assert read.max_bytes == values["max_bytes"]
    assert read.is_committed_only is (values["isolation_level"] == 1)
    session = (values["session_id"], values["session_epoch"]) if version >= 7 else (0, -1)
    assert (read.session_id, read.session_epoch) == session
    assert read.rack_id == (values["rack_id"] if version >= 11 else "")
    assert read.partitions == tuple(
        read_row(version, name, row) for name, rows in topics.items() for row in rows
    )
    assert read.forgotten == tuple(
        (key_of(version, name), number)
        for name, numbers in forgotten.items()
        for number in numbers
        if version >= 7
    )


@given(version=st.integers(VERSION_MIN, VERSION_MAX), topics=TOPICS, data=st.data())
def test_a_cut_request_is_refused(version, topics, data):
    body = request_bytes(version, topics, {"t": [1]}, replica_id=7)
    size = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(RemoteProtocolError, match=f"Fetch {version} cannot be read"):
        decode_fetch_request(version, body[:size])


LIMITS = bytes(12)
NULLS = [
    (4, bytes(4) + LIMITS + b"\2", "isolation level 2"),
    (4, bytes(4) + LIMITS + b"\0\xff\xff\xff\xff", "an array of -1 elements"),
    (4, bytes(4) + LIMITS + b"\0\0\0\0\1\xff\xff", "no name of a topic"),
    (12, bytes(4) + LIMITS + bytes(9) + b"\1\1\0\0", "no rack id"),
]


@pytest.mark.parametrize(("version", "body", "reason"), NULLS)
def test_what_may_not_be_null_is_refused(version, body, reason):
    with pytest.raises(RemoteProtocolError, match=reason):
        decode_fetch_request(version, body)


def test_a_state_of_the_replica_below_its_version_is_ignored():
    body = request_bytes(14, {}, replica_id=5)
    state = b"\1\1\x0c" + bytes(12)
    assert decode_fetch_request(14, body[:-1] + state).replica_id == 5
    assert decode_fetch_request(15, body[4:-1] + state).replica_id == 0
    assert decode_fetch_request(15, body[4:]).replica_id == -1


@pytest.mark.parametrize("number", range(len(FRAMES)))
def test_recorded_frames_equal_kios(number):
    version, frame = FRAMES[number]
    header, position = codec.split_request(frame)
    assert header.api_version == version
    read = decode_fetch_request(version, frame, position)
    body, _ = entity_reader(schema(version).FetchRequest)(frame, position)
    assert [(each.partition, each.fetch_offset) for each in read.partitions] == [
        (row.partition, row.fetch_offset) for topic in body.topics for row in topic.partitions
    ]
    assert (read.session_id, read.session_epoch) == (body.session_id, body.session_epoch)
