"""Topics and configs that a caller may not touch, beside those that it may."""

from types import SimpleNamespace

import pytest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

from metadata.records import AccessControlEntryRecord
from quorum_controller import bodies
from quorum_controller.result import Draft, RequestContext
from quorum_controller.security.authorization import AccessRules, Operation
from tests.quorum_controller.controller_harness import SECOND, Harness, manual, topic
from wire import api_keys
from wire.api_keys import CREATE_PARTITIONS, ELECT_LEADERS, INCREMENTAL_ALTER_CONFIGS
from wire.errors import ErrorCode

ALICE = RequestContext(principal="User:alice")
ADMIN = RequestContext(principal="User:admin")
FAILED = ErrorCode.topic_authorization_failed
NONE = ErrorCode.none


def started(**operations):
    """Two brokers and the topics `mine`, `other`; alice may do the operations on `mine...`."""
    cluster = Harness(access=AccessRules(frozenset({"User:admin", "User:ANONYMOUS"})))
    cluster.start(1, 2)
    cluster.create(manual("mine", (1, 2)), manual("other", (1, 2)))
    draft = Draft(cluster.image, cluster.controller.next_offset)
    for number, name in enumerate(operations):
        draft.emit(
            AccessControlEntryRecord(
                id=number.to_bytes(16, "big"),
                resource_type=2,
                resource_name="mine",
                pattern_type=4,
                principal="User:alice",
                host="*",
                operation=int(Operation[name]),
                permission_type=3,
            )
        )
    if operations:
        cluster.take_draft(draft)
    return cluster


def test_creation_topic_by_topic():
    cluster = started(CREATE=1, DESCRIBE_CONFIGS=1)
    response = cluster.create(topic("mine2"), topic("theirs"), context=ALICE)
    assert [(t.name, t.error_code) for t in response.topics] == [
        ("mine2", NONE),
        ("theirs", FAILED),
    ]
    assert response.topics[0].configs
    assert "theirs" not in cluster.image.topic_id_by_name


def test_configs_of_a_new_topic_are_only_shown_to_those_who_may_see_them():
    (row,) = started(CREATE=1).create(topic("mine2"), context=ALICE).topics
    assert (row.num_partitions, row.configs, row.topic_config_error_code) == (-1, (), int(FAILED))


def delete(cluster, *names, ids=(), context=ALICE):
    states = [DeleteTopicState(name=name, topic_id=None) for name in names]
    states += [DeleteTopicState(name=None, topic_id=i) for i in ids]
    body = DeleteTopicsRequest(topics=tuple(states), timeout=SECOND)
    response = cluster.call(api_keys.DELETE_TOPICS, body, context=context)
    return {(row.name, row.error_code.name) for row in response.responses}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ({"DELETE": 1}, {("mine", "none"), ("other", FAILED.name), ("none", FAILED.name)}),
        (
            {"DESCRIBE": 1},
            {("mine", FAILED.name), ("other", FAILED.name), ("none", FAILED.name)},
        ),
    ],
)
def test_deletion_does_not_tell_what_exists(operations, expected):
    assert delete(started(**operations), "mine", "other", "none") == expected


def test_a_request_of_nothing_but_own_topics_is_answered_whole():
    cluster = started(DELETE=1)
    assert delete(cluster, "mine") == {("mine", "none")}
    assert set(cluster.image.topic_id_by_name) == {"other"}


def test_deletion_by_id_hides_the_name():
    cluster = started(DELETE=1)
    ids = [bodies.to_uuid(cluster.image.topic_id_by_name[name]) for name in ("mine", "other")]
    assert delete(cluster, ids=ids) == {("mine", "none"), (None, FAILED.name)}
    assert set(cluster.image.topic_id_by_name) == {"other"}


def test_partitions_are_added_by_those_who_may_alter():
    cluster = started(ALTER=1)
    rows = tuple(SimpleNamespace(name=n, count=2, assignments=None) for n in ("mine", "other"))
    body = SimpleNamespace(topics=rows, validate_only=False, timeout=SECOND)
    response = cluster.call(CREATE_PARTITIONS, body, context=ALICE)
    assert {(r.name, r.error_code) for r in response.results} == {("mine", NONE), ("other", FAILED)}


def test_configs_are_changed_by_those_who_may_alter_them():
    cluster = started(ALTER_CONFIGS=1)
    change = SimpleNamespace(name="retention.ms", config_operation=0, value="1000")
    resources = tuple(
        SimpleNamespace(resource_type=kind, resource_name=name, configs=(change,))
        for kind, name in ((2, "mine"), (2, "other"), (4, ""))
    )
    body = SimpleNamespace(resources=resources, validate_only=False)
    response = cluster.call(INCREMENTAL_ALTER_CONFIGS, body, context=ALICE)
    assert [row.error_code for row in response.responses] == [
        NONE,
        FAILED,
        ErrorCode.cluster_authorization_failed,
    ]


def test_cluster_operations_are_refused_as_a_whole():
    cluster = started(ALTER=1)
    asked = (SimpleNamespace(topic="mine", partitions=(0,)),)
    body = SimpleNamespace(election_type=0, topic_partitions=asked, timeout=SECOND)
    refused = cluster.call(ELECT_LEADERS, body, context=ALICE)
    assert refused.error_code is ErrorCode.cluster_authorization_failed
    assert cluster.call(ELECT_LEADERS, body, context=ADMIN).error_code is NONE
