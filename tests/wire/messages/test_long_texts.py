"""Texts that a version with lengths of 16 bits cannot carry: messages are cut, others refused."""

import dataclasses

import pytest

from wire.errors import LocalProtocolError
from wire.messages.codec import decode_response, encode_response, newest
from wire.messages.conversion import default_entity

METADATA, DELETE_ACLS, DESCRIBE_ACLS = 3, 31, 29
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
