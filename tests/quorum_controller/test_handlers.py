"""The requests that brokers forward to the controller, and those with a time-out of their own."""

from quorum_controller.handlers import HANDLERS
from wire import api_keys

OF_NODES = {
    api_keys.ALLOCATE_PRODUCER_IDS,
    api_keys.ALTER_PARTITION,
    api_keys.ASSIGN_REPLICAS_TO_DIRS,
    api_keys.BROKER_HEARTBEAT,
    api_keys.BROKER_REGISTRATION,
    api_keys.CONTROLLER_REGISTRATION,
}
"""Nodes send these for themselves; apache/kafka: KafkaApis.scala has no case for them."""
WITH_TIMEOUT = {
    api_keys.ALTER_PARTITION_REASSIGNMENTS,
    api_keys.CREATE_PARTITIONS,
    api_keys.CREATE_TOPICS,
    api_keys.DELETE_TOPICS,
    api_keys.ELECT_LEADERS,
    api_keys.UPDATE_FEATURES,
}
"""Those whose schema has timeoutMs."""


def test_requests_of_clients_are_forwarded_and_those_of_nodes_are_not() -> None:
    assert {key for key, handler in HANDLERS.items() if not handler.is_forwarded} == OF_NODES


def test_the_time_out_of_a_request_counts_where_it_has_one() -> None:
    assert {key for key, handler in HANDLERS.items() if handler.has_timeout} == WITH_TIMEOUT
