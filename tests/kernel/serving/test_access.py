"""The authorizer in answers that a node gives itself: hidden topics, refused names and ids."""

import uuid
from dataclasses import replace
from datetime import timedelta

import pytest

from kernel.serving.access import Access, principal_of
from kernel.serving.forwarding import ANONYMOUS_PRINCIPAL
from metadata.apply import apply_all
from metadata.delta import MetadataDelta
from metadata.image import EMPTY
from metadata.records import AccessControlEntryRecord, PartitionRecord, TopicRecord
from network.connections import address_bytes
from quorum_controller.security.authorization import (
    AccessRules,
    Caller,
    Operation,
    host_text,
)
from tests.kernel.harness import World
from wire.api_keys import CREATE_ACLS, DESCRIBE_QUORUM, ENVELOPE
from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages import codec
from wire.messages.codec import encode_request
from wire.types import LeaderEpoch, NodeId, PartitionEpoch

METADATA, DESCRIBE_TOPIC_PARTITIONS, VOTE = 3, 75, 52
ALICE = Caller("User:alice", "10.0.0.1")
RULES = Access(AccessRules())
OPEN = Access(None)
FAILED = ErrorCode.topic_authorization_failed


def topic_id(name):
    return name.encode().ljust(16, b"\0")


def image():
    """Topics `mine`, which alice may read, and `other`."""
    records = []
    for name in ("mine", "other"):
        records.append(TopicRecord(name=name, topic_id=topic_id(name)))
        records.append(
            PartitionRecord(
                partition_id=0,
                topic_id=topic_id(name),
                replicas=(NodeId(1),),
                isr=(NodeId(1),),
                leader=NodeId(1),
                leader_epoch=LeaderEpoch(0),
                partition_epoch=PartitionEpoch(0),
                directories=(bytes(16),),
            )
        )
    records.append(
        AccessControlEntryRecord(
            id=bytes(16),
            resource_type=2,
            resource_name="mine",
            pattern_type=3,
            principal="User:alice",
            host="*",
            operation=int(Operation.READ),
            permission_type=3,
        )
    )
    return apply_all(EMPTY, records, 0, MetadataDelta())


def metadata_rows(*names):
    new = codec.newest(METADATA, "response")
    return new.MetadataResponse(
        throttle_time=timedelta(0),
        brokers=(),
        cluster_id="c",
        controller_id=1,
        topics=tuple(
            new.MetadataResponseTopic(
                error_code=ErrorCode.none,
                name=name,
                topic_id=uuid.UUID(bytes=topic_id(name)),
                is_internal=False,
                partitions=(),
                topic_authorized_operations=3576,
            )
            for name in names
        ),
        error_code=ErrorCode.none,
    )


def metadata_request(*names, by_id=False):
    new = codec.newest(METADATA, "request")
    topics = tuple(
        new.MetadataRequestTopic(
            topic_id=uuid.UUID(bytes=topic_id(name)) if by_id else None,
            name=None if by_id else name,
        )
        for name in names
    )
    return new.MetadataRequest(
        topics=topics or None,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )


def seen(*names, by_id=False, access=RULES):
    request = metadata_request(*names, by_id=by_id)
    response = access.metadata(
        image(), ALICE, request, metadata_rows(*(names or ("mine", "other")))
    )
    return [(row.name, row.topic_id is not None, row.error_code) for row in response.topics]


def test_all_topics_are_those_that_may_be_described():
    assert seen() == [("mine", True, ErrorCode.none)]


def test_names_are_refused_without_their_id():
    assert seen("mine", "other") == [
        ("mine", True, ErrorCode.none),
        ("other", False, FAILED),
    ]


def test_ids_are_refused_without_their_name():
    assert seen("other", by_id=True) == [(None, True, FAILED)]


def test_a_topic_id_that_nobody_has_is_no_secret():
    (row,) = metadata_rows("gone").topics
    row = replace(row, name=None, error_code=ErrorCode.unknown_topic_id)
    response = replace(metadata_rows(), topics=(row,))
    found = RULES.metadata(image(), ALICE, metadata_request("gone", by_id=True), response)
    assert [(row.name, row.error_code) for row in found.topics] == [
        (None, ErrorCode.unknown_topic_id)
    ]


def test_operations_are_the_caller_s():
    response = RULES.metadata(image(), ALICE, metadata_request("mine"), metadata_rows("mine"))
    bits = response.topics[0].topic_authorized_operations
    assert bits == (1 << Operation.READ) | (1 << Operation.DESCRIBE)


def test_without_an_authorizer_nothing_changes():
    response = metadata_rows("mine", "other")
    assert OPEN.metadata(image(), ALICE, metadata_request(), response) is response
    assert OPEN.refusal(image(), ALICE, VOTE, None) is None


@pytest.mark.parametrize(
    ("asked", "allowed", "refused"),
    [
        ((), ["mine"], ()),
        (("mine", "other"), ["mine"], ("other",)),
        (("other", "nowhere"), None, ("nowhere", "other")),
    ],
)
def test_descriptions_of_partitions(asked, allowed, refused):
    new = codec.newest(DESCRIBE_TOPIC_PARTITIONS, "request")
    request = new.DescribeTopicPartitionsRequest(
        topics=tuple(new.TopicRequest(name=name) for name in asked), cursor=None
    )
    found, hidden = RULES.describable(image(), ALICE, request)
    assert (found and [topic.name for topic in found.topics], hidden) == (allowed, refused)
    response = RULES.described(image(), ALICE, None, hidden)
    assert [(row.name, row.error_code) for row in response.topics] == [
        (name, FAILED) for name in refused
    ]


def test_the_quorum_is_for_nodes_with_cluster_action():
    request = codec.newest(VOTE, "request").VoteRequest(cluster_id="c", voter_id=1, topics=())
    refused = RULES.refusal(image(), ALICE, VOTE, request)
    assert refused.error_code is ErrorCode.cluster_authorization_failed
    super_user = Access(AccessRules(frozenset({"User:alice"})))
    assert super_user.refusal(image(), ALICE, VOTE, request) is None


def principal(kind=b"\x05User", name=b"\x02a", version=b"\0\0", end=b"\0\0"):
    return version + kind + name + end


UNREADABLE = {
    "none": None,
    "empty": b"",
    "version": principal(version=b"\0\7"),
    "cut": principal()[:4],
    "null type": principal(kind=b"\0"),
    "null name": principal(name=b"\0"),
    "no UTF-8": principal(kind=b"\x03\xff\xff"),
    "long length": principal(kind=b"\x80" * 11),
    "long length of the name": principal(name=b"\xff" * 9 + b"\1"),
    "no end": principal(end=b""),
    "tags over the end": principal(end=b"\0\1\0\x7f"),
    "long number of a tag": principal(end=b"\0\1" + b"\x80" * 11),
}


def describe_quorum():
    new = codec.newest(DESCRIBE_QUORUM, "request")
    partition = new.PartitionData(partition_index=0)
    topic = new.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    return new.DescribeQuorumRequest(topics=(topic,))


def test_principals_of_envelopes():
    assert principal_of(ANONYMOUS_PRINCIPAL) == "User:ANONYMOUS"
    assert principal_of(principal(name=b"\x03\xc3\xa9", end=b"\1\0")) == "User:\u00e9"


@pytest.mark.parametrize("wrong", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_principal(wrong):
    with pytest.raises(RemoteProtocolError):
        principal_of(wrong)


def test_an_envelope_with_an_unreadable_principal_is_refused_and_the_node_lives_on():
    world = World(1, seed=1)
    world.start_all()
    world.run_until(world.is_ready)
    client = world.client(1, "CONTROLLER")
    inner = encode_request(DESCRIBE_QUORUM, 0, 1, "c", describe_quorum())

    def asked(content, data=inner, address=b"\x7f\0\0\1"):
        request = codec.newest(ENVELOPE, "request").EnvelopeRequest(
            request_data=data, request_principal=content, client_host_address=address
        )
        return client.call(ENVELOPE, request).error_code

    for wrong in UNREADABLE.values():
        assert asked(wrong) is ErrorCode.principal_deserialization_failure
    assert asked(b"", data=b"") is ErrorCode.principal_deserialization_failure
    assert asked(principal(), data=b"") is ErrorCode.unsupported_version
    assert asked(principal(), data=b"", address=b"\x7f\0\0") is ErrorCode.invalid_request
    assert asked(principal(), address=bytes(16)) is ErrorCode.none
    assert asked(principal()) is ErrorCode.none


@pytest.mark.parametrize(
    ("host", "as_acls_have_it"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("2001:db8::17", "2001:db8:0:0:0:0:0:17"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("", "127.0.0.1"),
    ],
)
def test_the_address_that_acls_see(host, as_acls_have_it):
    assert host_text(address_bytes(host)) == as_acls_have_it


def test_the_broker_of_the_active_controller_judges_describe_quorum_as_an_envelope_does():
    """A broker of Kafka sends it on in an Envelope, whose controller asks for DESCRIBE."""
    rules = AccessRules(allows_without_acl=True)
    world = World(1, seed=1, access=rules)
    world.start_all()
    world.run_until(world.is_ready)
    broker, controller = world.client(1), world.client(1, "CONTROLLER")
    new = codec.newest(CREATE_ACLS, "request")
    only_nodes = new.AclCreation(
        resource_type=4,
        resource_name="kafka-cluster",
        resource_pattern_type=3,
        principal="User:ANONYMOUS",
        host="*",
        operation=int(Operation.CLUSTER_ACTION),
        permission_type=3,
    )
    assert broker.call(DESCRIBE_QUORUM, describe_quorum()).error_code is ErrorCode.none
    created = broker.call(CREATE_ACLS, new.CreateAclsRequest(creations=(only_nodes,)))
    assert [row.error_code for row in created.results] == [ErrorCode.none]
    for client in (broker, controller):
        refused = client.call(DESCRIBE_QUORUM, describe_quorum())
        assert refused.error_code is ErrorCode.cluster_authorization_failed
