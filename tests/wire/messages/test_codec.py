"""Bodies against frames that Kafka, its clients and librdkafka sent."""

import contextlib
import dataclasses
import importlib
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.index import api_key_map, schema_name_map

from wire.api_table import SCHEMAS, ListenerKind, apis
from wire.connections.headers import RequestHeader, encode_request_header
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.messages.body_walk import checked_body, entity_walker
from wire.messages.body_writer import body_writer
from wire.messages.codec import (
    decode_request,
    decode_response,
    default_request,
    encode_request,
    encode_response,
    entity_class,
    is_flexible,
    newest,
    preload,
    split_request,
)
from wire.messages.conversion import (
    converter,
    default_entity,
    field_types,
    is_nullable,
)
from wire.messages.field_rules import FIELD_RULES
from wire.types import METADATA_TOPIC_ID

GOLDEN = Path(__file__).parents[2] / "golden" / "wire"
PAIRS = [json.loads(line) for line in (GOLDEN / "pairs.jsonl").read_text().splitlines()]
# What these versions say and the newest class cannot: topic names of Fetch before 13, authorized
# operations of the cluster in Metadata 8 to 10, results per feature in UpdateFeatures before 2.
ONLY_READ = {("FETCH", 11), ("METADATA", 10), ("UPDATE_FEATURES", 1)}


def name(pair):
    flags = "-".join(pair["flags"])
    return f"{pair['api']}-v{pair['api_version']}-{flags}"


@pytest.mark.parametrize("pair", PAIRS, ids=name)
def test_golden_pairs(pair):
    frame = bytes.fromhex(pair["request_hex"])
    header, position = split_request(frame)
    assert (header.api_key, header.api_version) == (pair["api_key"], pair["api_version"])
    assert header.correlation_id == pair["correlation_id"]
    request = decode_request(header.api_key, header.api_version, memoryview(frame)[position:])
    assert type(request) is type(default_request(header.api_key))
    is_exact = (pair["api"], pair["api_version"]) not in ONLY_READ
    again = encode_request(
        header.api_key, header.api_version, header.correlation_id, header.client_id, request
    )
    if is_exact:
        assert frame.startswith(again) if "LEFTOVER" in pair["flags"] else frame == again
    if pair["response_hex"]:
        frame = bytes.fromhex(pair["response_hex"])
        correlation_id, response = decode_response(header.api_key, header.api_version, frame)
        assert correlation_id == pair["correlation_id"]
        again = encode_response(header.api_key, header.api_version, correlation_id, response)
        assert again == frame or not is_exact


def test_leftover_bytes_are_among_the_samples():
    assert any("LEFTOVER" in pair["flags"] for pair in PAIRS)


def test_table_is_what_kio_has():
    assert {key: schema.package for key, schema in SCHEMAS.items()} == dict(api_key_map)
    for schema in SCHEMAS.values():
        assert schema.newest_version == max(schema_name_map[schema.package])


@pytest.mark.parametrize("kind", list(ListenerKind))
def test_ranges_are_those_of_kafka(kind):
    ranges = json.loads((GOLDEN / "api-versions.json").read_text())[f"4.3.1-{kind.value}-v4"]
    table = apis(kind, [int(key) for key in ranges])
    assert {str(k): [api.min_version, api.max_version] for k, api in table.items()} == ranges


SERVED = [1, 3, 18, 19, 20, 52, 53, 54, 55, 58, 59, 60, 62, 63, 64, 70, 75, 82]
VERSIONS = [
    (key, version) for key in SERVED for version in sorted(schema_name_map[api_key_map[key]])
]


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_defaults_survive_every_version(api_key, version):
    request = default_request(api_key)
    frame = encode_request(api_key, version, 7, None, request)
    header, position = split_request(frame)
    assert header.correlation_id == 7
    decoded = decode_request(api_key, version, frame[position:])
    assert type(decoded) is type(request)
    module = newest(api_key, "response")
    response = default_entity(getattr(module, f"{SCHEMAS[api_key].name}Response"))
    answer = encode_response(api_key, version, 7, response)
    assert decode_response(api_key, version, answer)[0] == 7


def test_fetch_12_speaks_of_the_metadata_topic_by_name():
    fetch = newest(1, "request")
    partition = default_entity(fetch.FetchPartition)
    import uuid

    metadata = uuid.UUID(bytes=METADATA_TOPIC_ID)
    request = converter(type(default_request(1)), type(default_request(1)))
    assert request is None
    from dataclasses import replace

    body = replace(
        default_request(1),
        replica_state=fetch.ReplicaState(replica_id=3),
        topics=(fetch.FetchTopic(topic_id=metadata, partitions=(partition,)),),
    )
    frame = encode_request(1, 12, 0, "c", body)
    assert b"__cluster_metadata" in frame
    decoded = decode_request(1, 12, frame[split_request(frame)[1] :])
    assert decoded.replica_state.replica_id == 3
    assert decoded.topics[0].topic_id == metadata


def test_delete_topics_by_name_becomes_states():
    from dataclasses import replace

    module = newest(20, "request")
    states = tuple(module.DeleteTopicState(name=n, topic_id=None) for n in ("a", "b"))
    body = replace(default_request(20), topics=states)
    frame = encode_request(20, 5, 0, None, body)
    assert decode_request(20, 5, frame[split_request(frame)[1] :]) == body


def test_metadata_0_asks_for_all_topics_with_an_empty_list():
    assert decode_request(3, 0, b"\0\0\0\0").topics is None
    assert decode_request(3, 1, b"\0\0\0\0").topics == ()


def test_pre_vote_needs_vote_2():
    from dataclasses import replace

    vote = newest(52, "request")
    partition = replace(default_entity(vote.PartitionData), pre_vote=True)
    topic = vote.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    body = replace(default_request(52), topics=(topic,))
    with pytest.raises(LocalProtocolError):
        encode_request(52, 1, 0, None, body)
    frame = encode_request(52, 2, 0, None, body)
    assert decode_request(52, 2, frame[split_request(frame)[1] :]) == body


@pytest.mark.parametrize("pair", PAIRS, ids=name)
def test_unknown_tagged_fields_are_skipped(pair):
    frame = bytes.fromhex(pair["request_hex"])
    header, position = split_request(frame)
    body = decode_request(header.api_key, header.api_version, frame[position:])
    entity = entity_class(header.api_key, header.api_version, "request")
    # With fields of its own the section is not the last byte; see the test below for that.
    has_tagged_fields = any("tag" in field.metadata for field in dataclasses.fields(entity))
    if not entity.__flexible__ or "LEFTOVER" in pair["flags"] or has_tagged_fields:
        return
    assert frame[-1] == 0
    # The last byte is the number of tagged fields of the outermost entity: none.
    extended = frame[position:-1] + b"\x01\x90\x4e\x03abc"
    assert decode_request(header.api_key, header.api_version, extended) == body
    assert checked_body(entity, extended) == frame[position:]


@given(key_version=st.sampled_from(VERSIONS), body=st.binary(max_size=60))
def test_garbage_is_a_remote_error(key_version, body):
    with contextlib.suppress(RemoteProtocolError):  # nothing else is raised
        decode_request(*key_version, body)


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (3, 1, "7fffffff"),
        (3, 1, "3fffffff"),
        (3, 9, "ffffffff0f"),
        (19, 2, "7fffffff"),
        (19, 7, "ffffffff0f"),
        (20, 1, "7fffffff"),
    ],
)
def test_huge_array_lengths_are_refused_before_memory_is_taken(api_key, version, body):
    with pytest.raises(RemoteProtocolError, match="items in 0 bytes"):
        decode_request(api_key, version, bytes.fromhex(body))


def test_unknown_tags_inside_a_known_tagged_entity_are_cut():
    """Fetch's replica state is a tagged entity: its size changes when an inner field goes."""
    from dataclasses import replace

    fetch = newest(1, "request")
    body = replace(default_request(1), replica_state=fetch.ReplicaState(replica_id=3))
    frame = encode_request(1, 18, 0, None, body)
    plain = frame[split_request(frame)[1] :]
    state = bytes.fromhex("00000003ffffffffffffffff")
    assert plain.endswith(b"\x01\x01\x0d" + state + b"\0")
    extended = plain[: -len(state) - 4] + b"\x02\x01\x11" + state + b"\x01\x55\x02ab"
    extended += b"\x60\x01z"
    assert checked_body(entity_class(1, 18, "request"), extended) == plain
    assert decode_request(1, 18, extended) == body


def test_preload_makes_a_first_use_cheap():
    """Afterwards everything that a first use derives is there: decoding imports no module."""
    derived = (body_writer, entity_walker)
    for derive in derived:
        derive.cache_clear()
    preload(54)
    modules = set(sys.modules)
    misses = [derive.cache_info().misses for derive in derived]
    version = SCHEMAS[54].newest_version
    frame = encode_request(54, version, 1, None, default_request(54))
    _, position = split_request(frame)
    decode_request(54, version, memoryview(frame)[position:])
    assert set(sys.modules) == modules
    for derive in derived:
        derive(entity_class(54, version, "response"))
    assert [derive.cache_info().misses for derive in derived] == misses


@pytest.mark.parametrize(("api_key", "version"), [(9_999, 0), (18, 5_000), (18, -1)])
def test_what_is_no_version_is_not_looked_for(api_key, version, monkeypatch):
    """Any peer may ask for it, as often as it likes."""
    monkeypatch.setattr(importlib, "import_module", lambda name: pytest.fail(f"looked for {name}"))
    with pytest.raises(LookupError, match=f"no version {version} of API {api_key}"):
        entity_class(api_key, version, "request")


def test_a_version_that_kafka_has_removed_is_none():
    with pytest.raises(LookupError, match="no version 0 of API 19"):
        entity_class(19, 0, "request")


def test_a_request_of_an_unknown_version_is_refused():
    header = RequestHeader(api_key=18, api_version=5_000, correlation_id=1, client_id=None)
    with pytest.raises(RemoteProtocolError, match="version 5000 of ApiVersions is unknown"):
        split_request(encode_request_header(header, is_flexible=False))


@pytest.mark.parametrize(
    ("api_key", "version", "topics"),
    [(1, 12, "01"), (1, 13, "01"), (19, 5, "01"), (20, 5, "01"), (19, 2, "00000000")],
)
def test_null_for_a_list_that_cannot_be_null_is_refused(api_key, version, topics):
    """kio reads it as None, which a node that goes through the list does not survive."""
    frame = encode_request(api_key, version, 1, None, default_request(api_key))
    header, position = split_request(frame)
    body = frame[position:]
    empty = bytes.fromhex(topics)
    at = body.index(empty, 25 if api_key == 1 else 0)
    null = b"\0" if len(empty) == 1 else b"\xff" * 4
    decode_request(header.api_key, header.api_version, body)
    with pytest.raises(RemoteProtocolError, match="cannot be null"):
        decode_request(api_key, version, body[:at] + null + body[at + len(empty) :])


def test_a_field_without_a_default_is_zero():
    request = newest(49, "request")
    assert default_entity(request.OpData) == request.OpData(key="", value=0.0, remove=False)


def test_candidates_of_end_quorum_epoch_are_told_to_version_0_by_id():
    new = newest(54, "request")
    candidates = tuple(
        new.ReplicaInfo(candidate_id=number, candidate_directory_id=None) for number in (3, 1)
    )
    partition = default_entity(new.PartitionData)
    partition = dataclasses.replace(partition, preferred_candidates=candidates)
    topic = dataclasses.replace(default_entity(new.TopicData), partitions=(partition,))
    request = dataclasses.replace(default_request(54), topics=(topic,))
    frame = encode_request(54, 0, 7, None, request)
    decoded = decode_request(54, 0, frame[split_request(frame)[1] :])
    assert decoded.topics[0].partitions[0].preferred_candidates == candidates


def test_candidates_of_end_quorum_epoch_0_have_no_directory():
    old = sys.modules[entity_class(54, 0, "request").__module__]
    new = newest(54, "request")
    row = default_entity(old.PartitionData)
    row = dataclasses.replace(row, preferred_successors=(3, 1))
    candidates_of = FIELD_RULES[54, "PartitionData", "preferred_candidates"](new.PartitionData)
    assert candidates_of(row) == tuple(
        new.ReplicaInfo(candidate_id=number, candidate_directory_id=None) for number in (3, 1)
    )


def test_a_body_that_ends_in_a_field_is_refused_before_it_is_read():
    heartbeat = entity_class(63, 1, "request")
    with pytest.raises(IndexError, match="the body ends at 3, a field at 22"):
        checked_body(heartbeat, b"\0\0\0")


def test_a_named_type_may_be_nullable_too():
    """`T | None` of a NewType is a typing.Union, of a class a types.UnionType."""
    fields = field_types(newest(3, "request").MetadataRequestTopic)
    assert is_nullable(fields["topic_id"])
    assert is_nullable(fields["name"])
    assert not is_nullable(field_types(newest(3, "response").MetadataResponse)["controller_id"])


@pytest.mark.parametrize(("api_key", "first"), [(0, 3), (1, 4)])
def test_produce_and_fetch_are_flexible_as_kio_says_but_its_classes_are_not_imported(
    api_key, first, monkeypatch
):
    newest_version = SCHEMAS[api_key].newest_version
    for version in range(first, newest_version + 1):
        expected = entity_class(api_key, version, "request").__flexible__
        assert is_flexible.__wrapped__(api_key, version) is expected
    for version in (-1, newest_version + 1):
        with pytest.raises(LookupError):
            is_flexible.__wrapped__(api_key, version)
    monkeypatch.setattr("wire.messages.codec.entity_class", None)
    for version in range(first, newest_version + 1):
        is_flexible.__wrapped__(api_key, version)
