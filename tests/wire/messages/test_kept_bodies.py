"""Bodies that repeat unchanged are read and written once; others are not remembered."""

import contextlib
import dataclasses

import pytest
from kio.schema.index import api_key_map, schema_name_map

from wire.api_keys import API_VERSIONS, BROKER_HEARTBEAT, DESCRIBE_CLUSTER, VOTE
from wire.errors import RemoteProtocolError
from wire.messages.codec import (
    _REPEATED,
    _kept_content,
    decode_as_sent,
    decode_request,
    default_request,
    encode_request,
    entity_class,
    newest,
    split_request,
)
from wire.messages.conversion import default_entity, entity_of, field_types

SMALL_BYTES_MAX = 512


def is_read_once(frame):
    return decode_as_sent(frame) is decode_as_sent(frame)


@pytest.mark.parametrize(
    ("api_key", "version", "kept"),
    [(BROKER_HEARTBEAT, 1, True), (VOTE, 2, True), (DESCRIBE_CLUSTER, 1, False)],
)
def test_only_what_repeats_is_read_once(api_key, version, kept):
    assert is_read_once(encode_request(api_key, version, 5, "c", default_request(api_key))) == kept


@pytest.mark.parametrize(("more", "kept"), [(0, True), (1, False)])
def test_only_small_bodies_are_read_once(more, kept):
    """A peer that sends large ones does not fill the memory."""
    request = default_request(API_VERSIONS)
    empty = encode_request(API_VERSIONS, 3, 5, "c", request)
    size = SMALL_BYTES_MAX - (len(empty) - split_request(empty)[1]) - 1  # its length: a byte more
    named = dataclasses.replace(request, client_software_name="n" * (size + more))
    frame = encode_request(API_VERSIONS, 3, 5, "c", named)
    assert len(frame) - split_request(frame)[1] == SMALL_BYTES_MAX + more
    assert is_read_once(frame) == kept


@pytest.mark.parametrize(("api_key", "times"), [(BROKER_HEARTBEAT, 1), (DESCRIBE_CLUSTER, 0)])
def test_only_what_repeats_is_written_once(api_key, times):
    body = default_request(api_key)
    _kept_content.cache_clear()
    frames = {encode_request(api_key, 1, 5, "c", body) for _ in range(2)}
    assert len(frames) == 1
    found = _kept_content.cache_info()
    assert (found.misses, found.hits) == (times, times)


@pytest.mark.parametrize("kind", ["request", "response"])
@pytest.mark.parametrize("api_key", sorted(_REPEATED))
def test_what_is_kept_is_immutable_and_equal_only_with_equal_bytes(api_key, kind):
    """Codecs of these APIs remember by value: no list, no float (0.0 is -0.0, the bytes differ)."""
    for version in sorted(schema_name_map[api_key_map[api_key]]):
        waiting = [entity_class(api_key, version, kind)]
        while waiting:
            entity = waiting.pop()
            assert entity.__dataclass_params__.frozen, entity
            for field in dataclasses.fields(entity):
                of = field_types(entity)[field.name]
                inner = entity_of(of)
                assert inner is not None or field.metadata["kafka_type"] != "float64", field
                assert "list" not in str(of), field
                waiting += [] if inner is None else [inner]


def test_kept_bodies_are_found_by_their_exact_bytes():
    heartbeat = newest(63, "request")
    body = default_entity(heartbeat.BrokerHeartbeatRequest)
    frames = [
        encode_request(63, 1, 5, "c", dataclasses.replace(body, broker_epoch=epoch))
        for epoch in (7, 8, 7)
    ]
    assert frames[0] == frames[2] != frames[1]
    position = split_request(frames[0])[1]
    contents = [frame[position:] for frame in frames]
    read = [decode_request(63, 1, content) for content in contents]
    assert [one.broker_epoch for one in read] == [7, 8, 7]
    for at in range(len(contents[0])):
        damaged = contents[0][:at] + bytes((contents[0][at] ^ 1,)) + contents[0][at + 1 :]
        with contextlib.suppress(RemoteProtocolError):
            assert decode_request(63, 1, damaged) != read[0]
    for _ in range(2):  # what cannot be read is not kept either
        with pytest.raises(RemoteProtocolError):
            decode_request(63, 1, contents[0][:-1])
