import dataclasses
import random
import uuid

import pytest

from broker_publisher.responses import (
    CLUSTER_OPERATIONS,
    NOT_REQUESTED,
    TOPIC_OPERATIONS,
    ResponseContext,
    controller_id_for,
    describe_cluster,
    describe_topic_partitions,
    metadata_response,
)
from tests.broker_publisher.builders import (
    LISTENER,
    broker,
    controller,
    directory,
    image,
    partition,
    topic,
)
from wire.errors import ErrorCode
from wire.messages.codec import encode_response, newest

CONTEXT = ResponseContext(cluster_id="cluster-of-22-letters.", listener=LISTENER, controller_id=2)
ORDERS = topic(1, "orders", partition(1, 2, 3), partition(2, 3, 1, leader_epoch=4))
BROKERS = (broker(1, rack="a"), broker(2), broker(3))
CLUSTER = image(*BROKERS, ORDERS, topic(2, "a.b", partition(3)))


def metadata_request(*names, ids=(), operations=False, auto=True):
    schema = newest(3, "request")
    topics = tuple(schema.MetadataRequestTopic(topic_id=None, name=name) for name in names)
    by_id = tuple(schema.MetadataRequestTopic(topic_id=one, name=None) for one in ids)
    return schema.MetadataRequest(
        topics=topics + by_id,
        allow_auto_topic_creation=auto,
        include_topic_authorized_operations=operations,
    )


ALL_TOPICS = newest(3, "request").MetadataRequest(
    topics=None, allow_auto_topic_creation=True, include_topic_authorized_operations=False
)


def describe_request(*names, limit=2000, cursor=None):
    schema = newest(75, "request")
    return schema.DescribeTopicPartitionsRequest(
        topics=tuple(schema.TopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=None
        if cursor is None
        else schema.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def cluster_request(*, kind=1, fenced=False, operations=False):
    return newest(60, "request").DescribeClusterRequest(
        include_cluster_authorized_operations=operations,
        endpoint_type=kind,
        include_fenced_brokers=fenced,
    )


def names_and_errors(response):
    return [(one.name, one.error_code) for one in response.topics]


def test_all_topics_come_sorted_with_brokers_and_cluster_id():
    response = metadata_response(CLUSTER, ALL_TOPICS, CONTEXT)
    assert names_and_errors(response) == [("a.b", ErrorCode.none), ("orders", ErrorCode.none)]
    assert [(b.node_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (1, "127.0.0.1", 9091, "a"),
        (2, "127.0.0.1", 9092, None),
        (3, "127.0.0.1", 9093, None),
    ]
    assert response.cluster_id == CONTEXT.cluster_id
    assert response.controller_id == 2
    second = response.topics[1].partitions[1]
    assert (second.leader_id, second.leader_epoch) == (2, 4)
    assert second.replica_nodes == second.isr_nodes == (2, 3, 1)
    assert response.topics[1].topic_authorized_operations == NOT_REQUESTED


def test_empty_list_means_no_topic_except_in_version_0():
    assert metadata_response(CLUSTER, metadata_request(), CONTEXT).topics == ()
    assert len(metadata_response(CLUSTER, metadata_request(), CONTEXT, 0).topics) == 2


def test_missing_and_illegal_names():
    request = metadata_request("orders", "nope", "bad name", "", ".", "x" * 250, "orders")
    assert names_and_errors(metadata_response(CLUSTER, request, CONTEXT)) == [
        ("orders", ErrorCode.none),
        ("nope", ErrorCode.unknown_topic_or_partition),
        ("bad name", ErrorCode.invalid_topic_exception),
        ("", ErrorCode.invalid_topic_exception),
        (".", ErrorCode.invalid_topic_exception),
        ("x" * 250, ErrorCode.invalid_topic_exception),
    ]


def test_by_id_unknown_ids_have_no_name():
    unknown = uuid.UUID(int=77)
    request = metadata_request(ids=(uuid.UUID(int=1), unknown))
    response = metadata_response(CLUSTER, request, CONTEXT)
    assert names_and_errors(response) == [
        ("orders", ErrorCode.none),
        (None, ErrorCode.unknown_topic_id),
    ]
    assert response.topics[1].topic_id == unknown


def test_topic_ids_before_version_12_are_an_invalid_request():
    request = metadata_request("orders", ids=(uuid.UUID(int=1),))
    response = metadata_response(CLUSTER, request, CONTEXT, 11)
    assert {one.error_code for one in response.topics} == {ErrorCode.invalid_request}


def test_a_topic_without_name_and_id_is_an_invalid_request():
    schema = newest(3, "request")
    nameless = schema.MetadataRequestTopic(name=None, topic_id=None)
    request = dataclasses.replace(metadata_request("orders"), topics=(nameless,))
    (one,) = metadata_response(CLUSTER, request, CONTEXT, 13).topics
    assert (one.error_code, one.name) == (ErrorCode.invalid_request, None)


@pytest.mark.parametrize(
    ("leader", "version", "error"),
    [
        (-1, 13, ErrorCode.leader_not_available),
        (9, 13, ErrorCode.leader_not_available),
        (4, 13, ErrorCode.listener_not_found),
        (4, 6, ErrorCode.listener_not_found),
        (4, 5, ErrorCode.leader_not_available),
    ],
)
def test_leader_that_cannot_be_shown(leader, version, error):
    parts = (*BROKERS, broker(4, listener="OTHER"), topic(1, "t", partition(1, 4, leader=leader)))
    response = metadata_response(image(*parts), metadata_request("t"), CONTEXT, version)
    shown = response.topics[0].partitions[0]
    assert (shown.error_code, shown.leader_id) == (error, -1)


def test_fenced_leader_is_shown_but_offline_and_not_in_the_list_of_brokers():
    parts = (broker(1, fenced=True), broker(2), topic(1, "t", partition(1, 2)))
    response = metadata_response(image(*parts), metadata_request("t"), CONTEXT)
    shown = response.topics[0].partitions[0]
    assert (shown.error_code, shown.leader_id) == (ErrorCode.none, 1)
    assert shown.offline_replicas == (1,)
    assert [one.node_id for one in response.brokers] == [2]


def test_offline_replicas_gone_other_listener_and_lost_directory():
    lost = partition(1, 2, 4, 9)
    lost = type(lost)(
        replicas=lost.replicas,
        isr=lost.isr,
        leader=1,
        directories=(directory(1), directory(7), directory(4), directory(9)),
    )
    parts = (*BROKERS, broker(4, listener="OTHER"), topic(1, "t", lost))
    response = metadata_response(image(*parts), metadata_request("t"), CONTEXT)
    assert response.topics[0].partitions[0].offline_replicas == (2, 4, 9)


def test_version_0_leaves_out_dead_replicas():
    parts = (*BROKERS, topic(1, "t", partition(1, 9)))
    shown = metadata_response(image(*parts), metadata_request("t"), CONTEXT, 0).topics[0]
    assert shown.partitions[0].error_code is ErrorCode.replica_not_available
    assert shown.partitions[0].replica_nodes == shown.partitions[0].isr_nodes == (1,)


def test_operations_when_asked_for_are_all_as_without_authorizer():
    response = metadata_response(CLUSTER, metadata_request("orders", operations=True), CONTEXT)
    assert response.topics[0].topic_authorized_operations == TOPIC_OPERATIONS == 3576


def test_internal_topics_are_marked():
    parts = (*BROKERS, topic(1, "__consumer_offsets", partition(1)))
    response = metadata_response(image(*parts), ALL_TOPICS, CONTEXT)
    assert response.topics[0].is_internal


def test_controller_id_is_the_preferred_one_where_it_is_an_alive_broker():
    rng = random.Random(7)
    assert controller_id_for(CLUSTER, LISTENER, rng, preferred=3) == 3
    assert controller_id_for(CLUSTER, LISTENER, rng, preferred=100) in (1, 2, 3)
    assert controller_id_for(CLUSTER, "OTHER", rng) == -1
    assert {controller_id_for(CLUSTER, LISTENER, rng) for _ in range(50)} == {1, 2, 3}


def test_describe_cluster_lists_fenced_brokers_only_when_asked():
    cluster = image(broker(1), broker(2, fenced=True))
    response = describe_cluster(cluster, cluster_request(), CONTEXT)
    assert [(b.broker_id, b.is_fenced) for b in response.brokers] == [(1, False)]
    response = describe_cluster(cluster, cluster_request(fenced=True, operations=True), CONTEXT)
    assert [(b.broker_id, b.is_fenced) for b in response.brokers] == [(1, False), (2, True)]
    assert response.cluster_authorized_operations == CLUSTER_OPERATIONS
    assert (response.cluster_id, response.controller_id) == (CONTEXT.cluster_id, 2)


def test_describe_cluster_on_a_controller_lists_controllers():
    cluster = image(broker(1), controller(102), controller(101))
    context = ResponseContext(cluster_id="c", listener="CONTROLLER", controller_id=102)
    response = describe_cluster(cluster, cluster_request(kind=2), context, 2)
    assert [(b.broker_id, b.port) for b in response.brokers] == [(101, 9291), (102, 9292)]
    assert (response.endpoint_type, response.controller_id) == (2, 102)


@pytest.mark.parametrize(
    ("kind", "served", "version", "error", "message"),
    [
        (2, 1, 1, ErrorCode.mismatched_endpoint_type, "of type BROKER, but we wanted"),
        (1, 2, 1, ErrorCode.mismatched_endpoint_type, "of type CONTROLLER, but we wanted"),
        (9, 1, 1, ErrorCode.unsupported_endpoint_type, "Unsupported endpoint type 9"),
        (9, 1, 0, ErrorCode.invalid_request, "Unsupported endpoint type 9"),
    ],
)
def test_describe_cluster_refuses_the_wrong_endpoint_type(kind, served, version, error, message):
    response = describe_cluster(CLUSTER, cluster_request(kind=kind), CONTEXT, served, version)
    assert response.error_code is error
    assert message in response.error_message


def test_describe_topic_partitions_pages_through_all_topics():
    seen, cursor = [], None
    for _ in range(10):
        request = describe_request(limit=2, cursor=cursor)
        response = describe_topic_partitions(CLUSTER, request, LISTENER)
        seen += [(one.name, p.partition_index) for one in response.topics for p in one.partitions]
        if response.next_cursor is None:
            break
        cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)
    assert seen == [("a.b", 0), ("orders", 0), ("orders", 1)]


def test_describe_topic_partitions_stops_before_the_next_topic_when_the_budget_is_used():
    response = describe_topic_partitions(CLUSTER, describe_request(limit=1), LISTENER)
    assert [one.name for one in response.topics] == ["a.b"]
    cursor = response.next_cursor
    assert (cursor.topic_name, cursor.partition_index) == ("orders", 0)


@pytest.mark.parametrize("limit", [0, -5])
def test_describe_topic_partitions_gives_at_least_one_partition(limit):
    response = describe_topic_partitions(CLUSTER, describe_request(limit=limit), LISTENER)
    assert sum(len(one.partitions) for one in response.topics) == 1


def test_describe_topic_partitions_is_bounded_by_the_broker():
    response = describe_topic_partitions(CLUSTER, describe_request("orders"), LISTENER, 1)
    assert response.next_cursor.partition_index == 1


def test_describe_topic_partitions_missing_names_and_elr():
    parts = (*BROKERS, topic(1, "t", partition(1, 2, 3, isr=(1,), elr=(2,), last_known_elr=(3,))))
    request = describe_request("t", "gone", "not legal")
    response = describe_topic_partitions(image(*parts), request, LISTENER)
    assert names_and_errors(response) == [
        ("gone", ErrorCode.unknown_topic_or_partition),
        ("not legal", ErrorCode.invalid_topic_exception),
        ("t", ErrorCode.none),
    ]
    shown = response.topics[2].partitions[0]
    assert (shown.eligible_leader_replicas, shown.last_known_elr) == ((2,), (3,))
    assert response.topics[2].topic_authorized_operations == 3576


@pytest.mark.parametrize("cursor", [("orders", -1), ("zzz", 0)])
def test_describe_topic_partitions_refuses_a_wrong_cursor(cursor):
    request = describe_request("orders", cursor=cursor)
    response = describe_topic_partitions(CLUSTER, request, LISTENER)
    assert names_and_errors(response) == [("orders", ErrorCode.invalid_request)]


def test_every_response_encodes_in_its_newest_version():
    answers = (
        (3, 13, metadata_response(CLUSTER, metadata_request("orders", "nope"), CONTEXT)),
        (60, 2, describe_cluster(CLUSTER, cluster_request(), CONTEXT)),
        (75, 0, describe_topic_partitions(CLUSTER, describe_request(limit=2), LISTENER)),
    )
    for key, version, body in answers:
        assert len(encode_response(key, version, 1, body)) > 20
