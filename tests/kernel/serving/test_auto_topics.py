"""Topics that clients name in Metadata and that do not exist, on nodes that serve records."""

from dataclasses import replace
from typing import Any

import pytest

from kernel.config import BrokerConfig, TopicDefaults
from kernel.effects import Log
from kernel.serving.auto_topics import SHOWN_MAX, AutoTopics, creatable_topic
from metadata.image import Partition
from network.answers import Encoded
from quorum_controller.security.authorization import AccessRules
from tests.kernel.harness import Client, World, config_of
from tests.kernel.port import image_of, serving_world
from wire.api_keys import CREATE_ACLS, CREATE_TOPICS, METADATA
from wire.connections.connection import Request
from wire.connections.framing import frame
from wire.errors import ErrorCode
from wire.messages import codec

DESCRIBE, CREATE, CLUSTER_ACTION = 8, 5, 9
TOPIC, CLUSTER = 2, 4
DENY, ALLOW = 2, 3


def asked(*names: str, may_create: bool = True, by_id: Any = None) -> Any:
    new = codec.newest(METADATA, "request")
    return new.MetadataRequest(
        topics=tuple(new.MetadataRequestTopic(name=name, topic_id=by_id) for name in names),
        allow_auto_topic_creation=may_create,
        include_topic_authorized_operations=False,
    )


def errors(response: Any) -> dict[str, ErrorCode]:
    return {row.name: row.error_code for row in response.topics}


def lines(world: World, event: str) -> list[dict[str, object]]:
    return [
        dict(log.fields) for node in world.nodes.values() for log in node.logs if log.event == event
    ]


def partitions(world: World, name: str) -> list[Partition]:
    topic = image_of(world).topic_named(name)
    return [] if topic is None else list(topic.partitions.values())


def broker_of(world: World, *, is_active: bool) -> int:
    return next(i for i in world.nodes if (i == world.active()) is is_active)


@pytest.mark.parametrize("is_active", [True, False])
def test_a_missing_topic_is_created_behind_the_answer(is_active: bool) -> None:
    world = serving_world(3)
    client = world.client(broker_of(world, is_active=is_active))
    first = client.call(METADATA, asked("a", "b"))
    assert errors(first) == dict.fromkeys("ab", ErrorCode.unknown_topic_or_partition)
    world.run_for(1000)
    again = client.call(METADATA, asked("a", "b"))
    assert errors(again) == dict.fromkeys("ab", ErrorCode.none)
    assert [len(row.partitions) for row in again.topics] == [1, 1]
    assert lines(world, "topics_auto_created") == [{"topics": "a,b", "topic_count": 2}]


def test_a_topic_is_asked_for_once_until_the_controller_answers() -> None:
    world = serving_world(3)
    client = world.client(broker_of(world, is_active=False))
    numbers = [client.send(METADATA, asked(*names)) for names in ("a", "a", "ab")]
    world.run_until(lambda: set(numbers) <= set(client.answers))
    sent = [line["topics"] for line in lines(world, "topics_auto_created")]
    assert sent == ["a", "b"]
    world.run_for(1000)
    client.delete_topic("a")
    client.call(METADATA, asked("a"))
    assert len(lines(world, "topics_auto_created")) == 3


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (asked("a", may_create=False), ErrorCode.unknown_topic_or_partition),
        (asked("a/b"), ErrorCode.invalid_topic_exception),
        (asked(""), ErrorCode.invalid_topic_exception),
    ],
)
def test_what_is_not_to_be_created_or_cannot_exist(body: Any, error: ErrorCode) -> None:
    world = serving_world(1)
    response = world.client(1).call(METADATA, body)
    assert [row.error_code for row in response.topics] == [error]
    assert not lines(world, "topics_auto_created")


def test_topics_that_exist_are_not_asked_for() -> None:
    world = serving_world(1)
    client = world.client(1)
    client.create_topic("here")
    assert errors(client.call(METADATA, asked("here", "a")))["here"] is ErrorCode.none
    assert [line["topics"] for line in lines(world, "topics_auto_created")] == ["a"]


def test_a_row_without_name_and_id_creates_nothing_beside_it() -> None:
    world = serving_world(1)
    new = codec.newest(METADATA, "request")
    nameless = new.MetadataRequestTopic(name=None, topic_id=None)
    body = asked("a")
    world.client(1).call(METADATA, replace(body, topics=(*body.topics, nameless)))
    assert not lines(world, "topics_auto_created")


def test_names_beside_ids_are_ignored() -> None:
    world = serving_world(1)
    client = world.client(1)
    client.create_topic("here")
    (here,) = client.call(METADATA, asked("here")).topics
    client.call(METADATA, asked("a", by_id=here.topic_id))
    assert not lines(world, "topics_auto_created")


@pytest.mark.parametrize("version", [0, 1, 3, 9, 13])
def test_every_version_asks_for_creation(version: int) -> None:
    world = serving_world(1)
    request = codec.encode_request(METADATA, version, 1, "test", asked("a"))
    world.send(world.open_client(1, "PLAINTEXT", lambda _: None), frame(request))
    world.run_for(1000)
    assert partitions(world, "a")


def test_a_request_for_all_topics_creates_none() -> None:
    world = serving_world(1)
    new = codec.newest(METADATA, "request")
    body = new.MetadataRequest(
        topics=None, allow_auto_topic_creation=True, include_topic_authorized_operations=False
    )
    assert world.client(1).call(METADATA, body).topics == ()


def test_the_key_disables_it() -> None:
    world = serving_world(1, broker=BrokerConfig(auto_create_topics_enable=False))
    response = world.client(1).call(METADATA, asked("a"))
    assert errors(response) == {"a": ErrorCode.unknown_topic_or_partition}
    assert not lines(world, "topics_auto_created")


def test_a_node_without_records_creates_none() -> None:
    world = World(1)
    world.start_all()
    world.run_until(world.is_ready)
    world.client(1).call(METADATA, asked("a"))
    assert not lines(world, "topics_auto_created")


def test_the_controller_s_refusal_is_logged_and_the_next_request_tries_again() -> None:
    world = serving_world(
        1,
        topic_defaults=TopicDefaults(replication_factor=2),
        properties=(("default.replication.factor", "2"),),
    )
    client = world.client(1)
    for count in (1, 2):
        response = client.call(METADATA, asked("a"))
        assert errors(response) == {"a": ErrorCode.unknown_topic_or_partition}
        world.run_for(1000)
        refused = lines(world, "topic_auto_creation_refused")
        assert len(refused) == count
    assert refused[0]["error"] == "invalid_replication_factor"
    assert "2" in str(refused[0]["reason"])


HIDDEN = (
    (TOPIC, "no", CREATE, DENY),
    (TOPIC, "no", DESCRIBE, ALLOW),
    (TOPIC, "hidden", DESCRIBE, DENY),
    (TOPIC, "hidden", CREATE, ALLOW),
    (CLUSTER, "kafka-cluster", CLUSTER_ACTION, ALLOW),
)


def allow(client: Client, bindings: tuple[tuple[int, str, int, int], ...]) -> None:
    new = codec.newest(CREATE_ACLS, "request")
    body = new.CreateAclsRequest(
        creations=tuple(
            new.AclCreation(
                resource_type=kind,
                resource_name=name,
                principal="User:ANONYMOUS",
                host="*",
                operation=operation,
                permission_type=permission,
            )
            for kind, name, operation, permission in bindings
        )
    )
    results = client.call(CREATE_ACLS, body).results
    assert {row.error_code for row in results} == {ErrorCode.none}


def test_a_client_that_may_not_create_is_told() -> None:
    world = serving_world(1, access=AccessRules(allows_without_acl=True))
    client = world.client(1)
    allow(client, HIDDEN)
    response = client.call(METADATA, asked("yes", "no", "hidden", "no/name"))
    assert errors(response) == {
        "yes": ErrorCode.unknown_topic_or_partition,
        "no": ErrorCode.topic_authorization_failed,
        "hidden": ErrorCode.topic_authorization_failed,
        "no/name": ErrorCode.invalid_topic_exception,
    }
    world.run_for(1000)
    assert partitions(world, "yes")
    assert [line["topics"] for line in lines(world, "topics_auto_created")] == ["yes"]


def test_who_may_create_in_the_cluster_needs_no_right_on_the_topic() -> None:
    world = serving_world(1, access=AccessRules(allows_without_acl=True))
    client = world.client(1)
    allow(client, (*HIDDEN, (CLUSTER, "kafka-cluster", CREATE, ALLOW)))
    response = client.call(METADATA, asked("no", "hidden"))
    assert errors(response) == {
        "no": ErrorCode.unknown_topic_or_partition,
        "hidden": ErrorCode.topic_authorization_failed,
    }
    world.run_for(1000)
    assert partitions(world, "no")
    assert not partitions(world, "hidden")


# -- what is created ---------------------------------------------------------------------------


def test_the_controller_fills_in_what_the_broker_has_no_key_for() -> None:
    given = TopicDefaults(partition_count=3, replication_factor=2)
    silent = creatable_topic(config_of(1, topic_defaults=given), "a")
    assert (silent.num_partitions, silent.replication_factor) == (-1, -1)
    keys = (("default.replication.factor", "2"), ("num.partitions", "3"))
    for count, factor in ((3, -1), (-1, 2)):
        properties = keys[1:] if factor < 0 else keys[:1]
        topic = creatable_topic(config_of(1, topic_defaults=given, properties=properties), "a")
        assert (topic.num_partitions, topic.replication_factor) == (count, factor)
        assert topic.configs == ()


@pytest.mark.parametrize(
    ("name", "configs"),
    [
        (
            "__consumer_offsets",
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": "104857600",
            },
        ),
        (
            "__transaction_state",
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "2",
                "segment.bytes": "104857600",
                "unclean.leader.election.enable": "false",
            },
        ),
        (
            "__share_group_state",
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": "2",
                "retention.ms": "-1",
                "segment.bytes": "104857600",
            },
        ),
    ],
)
def test_topics_of_coordinators_are_created_as_kafka_s(name: str, configs: dict[str, str]) -> None:
    topic = creatable_topic(config_of(1), name)
    assert (topic.num_partitions, topic.replication_factor) == (50, 3)
    assert {each.name: each.value for each in topic.configs} == configs


@pytest.mark.parametrize(
    ("another", "count"),
    [
        (ErrorCode.policy_violation, SHOWN_MAX),
        (ErrorCode.none, 2),
        (ErrorCode.topic_already_exists, 2),
    ],
)
def test_log_lines_name_some_of_many_topics(another: ErrorCode, count: int) -> None:
    told = ("t0", "t1")
    effects: list[Any] = []
    held: list[Any] = []

    def forward(request: Request, address: bytes, answered: Any) -> None:
        assert address == b"\x7f\x00\x00\x01"
        held.append((request, answered))

    names = [f"t{i}" for i in range(SHOWN_MAX + 1)]
    body = asked(*names)
    frame_ = codec.encode_request(METADATA, 13, 7, "me", body)
    request = Request(METADATA, 13, 7, "me", body, 0, None, frame_)
    AutoTopics(config_of(1), forward, effects).create(request, b"\x7f\x00\x00\x01", names)
    ((sent, answered),) = held
    assert codec.split_request(sent.frame)[0] == codec.RequestHeader(CREATE_TOPICS, 7, 7, "me")
    new = codec.newest(CREATE_TOPICS, "response")
    rows = tuple(
        new.CreatableTopicResult(
            name=topic.name,
            topic_id=None,
            error_code=ErrorCode.policy_violation if topic.name in told else another,
            error_message=None,
            configs=(),
        )
        for topic in sent.body.topics
    )
    response = new.CreateTopicsResponse(throttle_time=sent.body.timeout * 0, topics=rows)
    answered(Encoded(codec.encode_response(CREATE_TOPICS, 7, 7, response)))
    found = [effect for effect in effects if isinstance(effect, Log)]
    assert found[0].fields == {"topics": ",".join(names[:-1]), "topic_count": len(names)}
    assert [log.fields for log in found[1:]] == [
        {"topic": name, "error": "policy_violation", "reason": ""} for name in names[:count]
    ]
