"""Texts beyond 16 bits of length: messages are cut, others refused, whatever the version."""

import dataclasses
import struct

import pytest

from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.messages.codec import decode_as_sent, decode_response, encode_response, newest
from wire.messages.conversion import default_entity
from wire.messages.field_reader import FieldReader
from wire.primitives import encode_unsigned_varint

METADATA, DELETE_ACLS, DESCRIBE_ACLS, DESCRIBE_GROUPS = 3, 31, 29, 15
LEGACY_BYTES_MAX = 32_767


def default(api_key, entity, **fields):
    return dataclasses.replace(
        default_entity(getattr(newest(api_key, "response"), entity)), **fields
    )


def as_read(api_key, version, body):
    return decode_response(api_key, version, encode_response(api_key, version, 7, body))[1]


@pytest.mark.parametrize(
    ("message", "carried"),
    [
        ("x" * LEGACY_BYTES_MAX, "x" * LEGACY_BYTES_MAX),
        ("x" * (LEGACY_BYTES_MAX + 1), "x" * LEGACY_BYTES_MAX),
        ("\u00e9" * 20_000, "\u00e9" * (LEGACY_BYTES_MAX // 2)),  # no half of a letter
    ],
)
def test_an_error_message_is_cut_to_what_the_version_can_carry(message, carried):
    body = default(DESCRIBE_ACLS, "DescribeAclsResponse", error_message=message)
    assert as_read(DESCRIBE_ACLS, 1, body).error_message == carried
    assert as_read(DESCRIBE_ACLS, 2, body).error_message == message


def test_messages_in_lists_of_lists_are_cut_and_those_that_are_none_stay_so():
    long = "x" * 40_000
    acls = tuple(
        default(DELETE_ACLS, "DeleteAclsMatchingAcl", error_message=text) for text in (long, None)
    )
    results = tuple(
        default(DELETE_ACLS, "DeleteAclsFilterResult", error_message=text, matching_acls=acls)
        for text in (None, long)
    )
    read = as_read(
        DELETE_ACLS, 1, default(DELETE_ACLS, "DeleteAclsResponse", filter_results=results)
    )
    cut = long[:LEGACY_BYTES_MAX]
    assert [one.error_message for one in read.filter_results] == [None, cut]
    for result in read.filter_results:
        assert [acl.error_message for acl in result.matching_acls] == [cut, None]


def test_another_text_that_is_too_long_is_an_error_of_ours():
    """Beside lists of numbers, which have no messages."""
    partition = default(METADATA, "MetadataResponsePartition", replica_nodes=(1, 2))
    topic = default(METADATA, "MetadataResponseTopic", name="x" * 40_000, partitions=(partition,))
    body = default(METADATA, "MetadataResponse", topics=(topic,))
    with pytest.raises(LocalProtocolError, match="Metadata response version 1 cannot be written"):
        encode_response(METADATA, 1, 7, body)


def group_request(version, *texts):
    start = struct.pack(">hhih", DESCRIBE_GROUPS, version, 1, -1)
    if version < 5:
        rows = b"".join(struct.pack(">h", len(text)) + text for text in texts)
        return start + struct.pack(">i", len(texts)) + rows + b"\0"
    rows = b"".join(encode_unsigned_varint(len(text) + 1) + text for text in texts)
    return start + b"\0" + encode_unsigned_varint(len(texts) + 1) + rows + b"\0\0"


@pytest.mark.parametrize("version", [4, 5])
def test_a_request_has_texts_of_16_bits_of_length(version):
    longest = b"x" * LEGACY_BYTES_MAX
    body = decode_as_sent(group_request(version, b"a", longest))
    assert [len(text) for text in body.groups] == [1, LEGACY_BYTES_MAX]


def test_a_longer_text_of_a_request_is_refused_as_by_kafka():
    with pytest.raises(RemoteProtocolError, match="a string of 32768 bytes"):
        decode_as_sent(group_request(5, b"a", b"x" * (LEGACY_BYTES_MAX + 1)))


def test_a_longer_text_of_what_is_read_by_hand_is_refused_too():
    encoded = encode_unsigned_varint(LEGACY_BYTES_MAX + 1) + b"x" * LEGACY_BYTES_MAX
    assert len(FieldReader(encoded, 0, is_flexible=True).text("name")) == LEGACY_BYTES_MAX
    encoded = encode_unsigned_varint(LEGACY_BYTES_MAX + 2) + b"x" * (LEGACY_BYTES_MAX + 1)
    with pytest.raises(ValueError, match="a text of 32768 bytes"):
        FieldReader(encoded, 0, is_flexible=True).text("name")
