"""Configs of a topic without own ones, in the answers to CreateTopics and DescribeConfigs.

The expected values are the answers of a Kafka 4.3.1 node with these properties (combined node,
CreateTopics v7 and DescribeConfigs v4, configs altered through the controller listener).
"""

import msgspec
import pytest
from immutables import Map
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource

from metadata.config_schema import (
    SOURCE_BROKER,
    SOURCE_CLUSTER_DEFAULT,
    SOURCE_DEFAULT,
    SOURCE_STATIC,
    broker_config,
    topic_configs,
)
from metadata.image import CONFIG_BROKER, EMPTY
from metadata.node_configs import NodeConfigs
from quorum_controller.configs.describe_configs import describe_configs
from quorum_controller.configs.topic_defaults import TopicConfigDefaults, partition_defaults
from quorum_controller.partitions.electorate import PartitionDefaults
from quorum_controller.query_context import QueryContext

WEEK_MS = "604800000"


def image_with(cluster=None, own=None):
    given = {(CONFIG_BROKER, ""): Map(cluster or {}), (CONFIG_BROKER, "1"): Map(own or {})}
    return msgspec.structs.replace(EMPTY, configs=Map(given))


def told(properties, name, image=EMPTY):
    """Value and source in a CreateTopics response; value in a DescribeConfigs response."""
    rows = {row.name: row for row in TopicConfigDefaults(1, properties).rows(image, {})}
    definition = topic_configs()[name]
    described = NodeConfigs(image, 1, properties).topic_value(definition)
    return rows[name].value, rows[name].config_source, described


@pytest.mark.parametrize(
    ("key", "value", "name", "created", "described"),
    [
        ("log.retention.hours", "-3", "retention.ms", "-10800000", "-1"),
        ("log.retention.minutes", "-2", "retention.ms", "-120000", "-1"),
        ("log.retention.ms", "-7", "retention.ms", "-7", "-1"),
        ("log.retention.ms", "-2", "retention.ms", "-2", "-1"),
        ("log.retention.ms", "-1", "retention.ms", "-1", "-1"),
        ("log.retention.ms", "0012", "retention.ms", "0012", "12"),
        ("log.retention.ms", "0", "retention.ms", "0", "0"),
        ("log.retention.bytes", "-5", "retention.bytes", "-5", "-5"),
        ("log.roll.hours", "2", "segment.ms", "7200000", "7200000"),
        ("log.roll.jitter.hours", "1", "segment.jitter.ms", "3600000", "3600000"),
        (
            "unclean.leader.election.enable",
            "TRUE",
            "unclean.leader.election.enable",
            "TRUE",
            "true",
        ),
    ],
)
def test_static_values_are_told_as_kafka_tells_them(key, value, name, created, described):
    assert told({key: value}, name) == (created, SOURCE_STATIC, described)


def test_the_shorter_unit_wins_within_a_layer():
    both = {"log.retention.hours": "5", "log.retention.minutes": "-2"}
    assert told(both, "retention.ms") == ("-120000", SOURCE_STATIC, "-1")


def test_the_better_layer_wins_whatever_its_unit():
    static = {"log.roll.ms": "5"}
    hours = {"log.roll.hours": "2"}
    assert told(static, "segment.ms", image_with(hours))[:2] == ("7200000", SOURCE_CLUSTER_DEFAULT)
    assert told({}, "segment.ms", image_with(hours))[2] == WEEK_MS, "hours are not dynamic"
    image = image_with(hours, {"log.roll.ms": "9"})
    assert told(static, "segment.ms", image) == ("9", SOURCE_BROKER, "9")


@pytest.mark.parametrize(("hours", "created"), [("x", "0"), ("", "0"), ("3000000000", "0")])
def test_hours_that_are_no_number_are_none_and_not_in_force(hours, created):
    image = image_with(own={"log.retention.hours": hours})
    assert told({}, "retention.ms", image) == (created, SOURCE_BROKER, WEEK_MS)
    assert told({"log.retention.ms": "8"}, "retention.ms", image)[2] == "8"


@pytest.mark.parametrize(("hours", "ms"), [(2**31 - 1, "7730941129200000"), (2**31, "0")])
def test_hours_are_an_int(hours, ms):
    assert told({}, "retention.ms", image_with({"log.retention.hours": str(hours)}))[0] == ms
    negative = image_with({"log.retention.hours": str(-hours - 1)})
    assert told({}, "retention.ms", negative)[0] == ("-7730941132800000" if ms != "0" else "0")


def test_a_dynamic_value_that_does_not_parse_is_told_but_not_in_force():
    image = image_with({"log.flush.interval.ms": "y", "min.insync.replicas": "2"})
    assert told({"log.flush.interval.ms": "7"}, "flush.ms", image) == (
        "y",
        SOURCE_CLUSTER_DEFAULT,
        "7",
    )
    image = image_with({"min.insync.replicas": "2"}, {"min.insync.replicas": "z"})
    assert told({}, "min.insync.replicas", image) == ("z", SOURCE_BROKER, "2")
    assert NodeConfigs(image, 1, {}).integer("min.insync.replicas") == 2


def test_defaults_of_topics_are_those_of_their_synonyms():
    for definition in topic_configs().values():
        assert NodeConfigs(EMPTY, 1, {}).topic_layer(definition) is None
        values = [(broker_config(s.name), s.factor) for s in definition.synonyms]
        texts = [(d.default, factor) for d, factor in values if d and d.default is not None]
        for text, factor in texts[:1]:
            derived = text if factor == 1 else str(int(text) * factor)
            assert derived == definition.default, definition.name
    assert told({}, "retention.ms") == (WEEK_MS, SOURCE_DEFAULT, WEEK_MS)


def defaults(properties, image=EMPTY):
    return partition_defaults(NodeConfigs(image, 1, properties))


def test_partition_defaults_are_of_the_same_layers():
    assert defaults({}) == PartitionDefaults(unclean_election=False, min_insync_replicas=1)
    static = {"unclean.leader.election.enable": " True", "min.insync.replicas": "3"}
    assert defaults(static) == PartitionDefaults(unclean_election=True, min_insync_replicas=3)
    image = image_with({"unclean.leader.election.enable": "false", "min.insync.replicas": "2"})
    assert defaults(static, image) == PartitionDefaults(False, 2)
    image = image_with({"min.insync.replicas": "2"}, {"min.insync.replicas": "4"})
    assert defaults(static, image) == PartitionDefaults(True, 4)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("1", ""),
        ("0" * 5_000 + "1", ""),
        ("-2147483648", "Unexpected broker id"),
        ("2147483648", "must be an integer"),
        ("-2147483649", "must be an integer"),
        ("0_1", "must be an integer"),
        (" 1", "must be an integer"),
    ],
)
@pytest.mark.parametrize("kind", [4, 8])
def test_a_node_is_named_by_an_int32(kind, name, reason):
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=()
    )
    request = DescribeConfigsRequest(resources=(resource,))
    context = QueryContext(node_id=1, is_broker=True, api_version=4, properties={}, wall_ms=0)
    (row,) = describe_configs(EMPTY, request, context).results
    assert reason in row.error_message
    assert bool(reason) == bool(row.error_message)
