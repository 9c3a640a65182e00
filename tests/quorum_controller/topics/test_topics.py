import uuid

import pytest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

from metadata.image import CONFIG_TOPIC
from quorum_controller.result import RequestContext
from tests.quorum_controller.controller_harness import (
    SECOND,
    Harness,
    directory,
    manual,
    names,
    topic,
)
from wire import api_keys
from wire.errors import ErrorCode

MANUAL = "The manual partition assignment includes"
NAME = "Topic name is invalid: "
# One row per check of createTopics; texts as Kafka 4.3.1 sends them.
REFUSED = [
    (topic("orders"), "topic_already_exists", "Topic 'orders' already exists."),
    (topic(""), "invalid_topic_exception", NAME + "the empty string is not allowed"),
    (topic(".."), "invalid_topic_exception", NAME + "'..' is not allowed"),
    (
        topic("bad name!"),
        "invalid_topic_exception",
        NAME
        + "'bad name!' contains one or more characters other than ASCII alphanumerics, "
        + "'.', '_' and '-'",
    ),
    (
        topic("x" * 250),
        "invalid_topic_exception",
        NAME + f"the length of '{'x' * 250}' is longer than the max allowed length 249",
    ),
    (
        topic("inventory_v2"),
        "invalid_topic_exception",
        "Topic 'inventory_v2' collides with existing topic: inventory.v2",
    ),
    (
        topic("t", configs=[("a", None), ("retention.ms", "1"), ("b", None)]),
        "invalid_config",
        "Null value not supported for topic configs: a,b",
    ),
    (
        topic("t", configs=[("no.such.config", "1")]),
        "invalid_config",
        "Unknown topic config name: no.such.config",
    ),
    (
        topic("t", configs=[("retention.ms", "soon")]),
        "invalid_config",
        "Invalid value soon for configuration retention.ms: Not a number of type LONG",
    ),
    (
        topic("t", configs=[("segment.bytes", "1000")]),
        "invalid_config",
        "Invalid value 1000 for configuration segment.bytes: Value must be at least 1048576",
    ),
    (
        topic("t", configs=[("cleanup.policy", "shred")]),
        "invalid_config",
        (
            "Invalid value shred for configuration cleanup.policy: "
            "String must be one of: compact, delete"
        ),
    ),
    (
        topic("t", configs=[("preallocate", "yes")]),
        "invalid_config",
        (
            "Invalid value yes for configuration preallocate: "
            "Expected value to be either true or false"
        ),
    ),
    (
        topic("t", -1, 2, [(1,)]),
        "invalid_request",
        "A manual partition assignment was specified, but replication factor was not set to -1.",
    ),
    (
        topic("t", 2, -1, [(1,)]),
        "invalid_request",
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    ),
    (
        topic("t", -1, -1, [(0, (1,)), (0, (2,))]),
        "invalid_replica_assignment",
        "Found multiple manual partition assignments for partition 0",
    ),
    (
        topic("t", -1, -1, [(0, (1,)), (2, (2,))]),
        "invalid_replica_assignment",
        "partitions should be a consecutive 0-based integer sequence",
    ),
    (manual("t", ()), "invalid_replica_assignment", MANUAL + " an empty replica list."),
    (
        manual("t", (999,)),
        "invalid_replica_assignment",
        MANUAL + " broker 999, but no such broker is registered.",
    ),
    (
        manual("t", (1, 1)),
        "invalid_replica_assignment",
        MANUAL + " the broker 1 more than once.",
    ),
    (
        manual("t", (1, 2), (1,)),
        "invalid_replica_assignment",
        MANUAL + " a partition with 1 replica(s), but this is not consistent with previous "
        "partitions, which have 2 replica(s).",
    ),
    (
        manual("t", (4,)),
        "invalid_replica_assignment",
        (
            "All brokers specified in the manual partition assignment for partition 0 are fenced "
            "or in controlled shutdown."
        ),
    ),
    (
        topic("t", 1, 0),
        "invalid_replication_factor",
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    (
        topic("t", 1, -2),
        "invalid_replication_factor",
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    (
        topic("t", 0, 1),
        "invalid_partitions",
        "Number of partitions was set to an invalid non-positive value.",
    ),
    (
        topic("t", 1, 7),
        "invalid_replication_factor",
        (
            "Unable to replicate the partition 7 time(s): The target replication factor of 7 "
            "cannot be reached because only 4 broker(s) are registered or some brokers have all "
            "their log directories cordoned."
        ),
    ),
    (
        topic("__cluster_metadata"),
        "invalid_request",
        "Creation of internal topic __cluster_metadata is prohibited.",
    ),
]


@pytest.fixture
def cluster():
    harness = Harness().start(1, 2, 3)
    harness.register(4)
    harness.create(topic("orders"), topic("inventory.v2"))
    return harness


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(("wanted", "code", "text"), REFUSED)
def test_refusals_have_kafkas_code_and_text(cluster, wanted, code, text, validate_only):
    before = cluster.controller.next_offset
    (row,) = cluster.create(wanted, validate_only=validate_only).topics
    assert (row.error_code, row.error_message) == (ErrorCode[code], text)
    assert (row.topic_id, row.num_partitions, row.replication_factor, row.configs) == (
        None,
        -1,
        -1,
        (),
    )
    assert cluster.controller.next_offset == before


def test_validate_only_answers_like_a_creation_and_writes_nothing(cluster):
    before = cluster.image
    (row,) = cluster.create(topic("new", 3, 2), validate_only=True).topics
    assert (row.error_code, row.num_partitions, row.replication_factor) == (0, 3, 2)
    assert row.topic_id is not None
    assert cluster.image is before


def test_records_are_topic_then_configs_by_name_then_partitions(cluster):
    configs = [("retention.ms", "7"), ("cleanup.policy", "compact")]
    (row,) = cluster.create(topic("new", 2, 2, configs=configs)).topics
    records = cluster.batches[-1].records
    assert names(records) == ["Topic", "Config", "Config", "Partition", "Partition"]
    assert [record.name for record in records[1:3]] == ["cleanup.policy", "retention.ms"]
    assert dict(cluster.image.config(CONFIG_TOPIC, "new").items()) == dict(configs)
    shown = {c.name: (c.value, c.config_source) for c in row.configs}
    assert shown["retention.ms"] == ("7", 1)
    assert shown["segment.bytes"] == ("1073741824", 5)
    assert list(shown) == sorted(shown)


def test_a_caller_without_the_right_sees_no_configs(cluster):
    context = RequestContext(may_describe_configs=False)
    (row,) = cluster.create(topic("new"), context=context).topics
    assert (row.topic_config_error_code, row.num_partitions, row.configs) == (29, -1, ())


def test_a_new_partition_has_its_directories_and_leaves_fenced_brokers_out_of_the_isr(cluster):
    cluster.create(manual("new", (4, 2, 1)))
    partition = cluster.partition("new")
    assert (partition.replicas, partition.isr, partition.leader) == ((4, 2, 1), (2, 1), 2)
    assert partition.directories == tuple(directory(i).bytes for i in (4, 2, 1))
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)


def test_one_request_refuses_some_topics_and_creates_the_others(cluster):
    rows = cluster.create(topic("orders"), topic("twice"), topic("payments"), topic("twice")).topics
    assert [(row.name, row.error_code.name) for row in rows] == [
        ("orders", "topic_already_exists"),
        ("payments", "none"),
        ("twice", "invalid_request"),
    ]
    assert rows[2].error_message == "Duplicate topic name."


def test_a_collision_ends_with_the_deletion(cluster):
    cluster.delete("inventory.v2")
    assert cluster.create(topic("inventory_v2")).topics[0].error_code == ErrorCode.none


def test_a_recreated_topic_has_a_new_id_and_no_old_configs(cluster):
    (first,) = cluster.create(topic("again", configs=[("retention.ms", "5")])).topics
    cluster.delete("again")
    (second,) = cluster.create(topic("again")).topics
    assert first.topic_id != second.topic_id
    assert not cluster.image.config(CONFIG_TOPIC, "again")


def test_ten_thousand_records_pass_and_one_more_is_refused():
    cluster = Harness().start(1)
    assert cluster.create(topic("big", 9_999)).topics[0].error_code == ErrorCode.none
    assert len(cluster.batches[-1].records) == 10_000
    (row,) = cluster.create(topic("bigger", 10_000)).topics
    assert row.error_code == ErrorCode.policy_violation
    assert row.error_message == "Unable to perform excessively large batch operation."
    rows = cluster.create(topic("a", 5_000), topic("b", 5_001)).topics
    assert {r.error_message for r in rows} == {
        "Excessively large number of partitions per request."
    }
    assert "a" not in cluster.image.topic_id_by_name


def test_defaults_replace_minus_one():
    cluster = Harness(default_partition_count=4, default_replication_factor=2).start(1, 2)
    (row,) = cluster.create(topic("t", -1, -1)).topics
    assert (row.num_partitions, row.replication_factor) == (4, 2)


def test_static_properties_show_as_defaults_of_a_new_topic():
    cluster = Harness(properties={"log.retention.hours": "2"}).start(1)
    (row,) = cluster.create(topic("t")).topics
    shown = {c.name: (c.value, c.config_source) for c in row.configs}
    assert shown["retention.ms"] == ("7200000", 4)


def test_topics_are_deleted_by_name_and_by_id(cluster):
    (row,) = cluster.create(topic("new")).topics
    (by_name,) = cluster.delete("orders").responses
    (by_id,) = cluster.delete(ids=[row.topic_id]).responses
    assert (by_name.error_code, by_name.name) == (ErrorCode.none, "orders")
    assert (by_id.error_code, by_id.name, by_id.topic_id) == (ErrorCode.none, "new", row.topic_id)
    assert list(cluster.image.topic_id_by_name) == ["inventory.v2"]


def test_deletions_are_refused_one_by_one(cluster):
    orders_id = uuid.UUID(bytes=cluster.image.topic_id_by_name["orders"])
    unknown = uuid.UUID(int=5)
    states = [
        ("missing", None),
        (None, unknown),
        (None, None),
        ("x", unknown),
        ("orders", None),
        (None, orders_id),
        ("inventory.v2", None),
        ("inventory.v2", None),
    ]
    body = DeleteTopicsRequest(
        topics=tuple(DeleteTopicState(name=n, topic_id=i) for n, i in states), timeout=SECOND
    )
    rows = cluster.call(api_keys.DELETE_TOPICS, body).responses
    assert [(row.error_code.name, row.error_message) for row in rows] == [
        ("unknown_topic_or_partition", "This server does not host this topic-partition."),
        ("unknown_topic_id", "This server does not host this topic ID."),
        ("invalid_request", "Neither topic name nor id were specified."),
        ("invalid_request", "You may not specify both topic name and topic id."),
        ("invalid_request", "The provided topic name maps to an ID that was already supplied."),
        ("none", None),
        ("invalid_request", "Duplicate topic name."),
    ]


def test_deletion_can_be_switched_off():
    cluster = Harness(delete_topic_enable=False).start(1)
    cluster.create(topic("t"))
    (row,) = cluster.delete("t").responses
    assert row.error_code == ErrorCode.topic_deletion_disabled
