"""Requests to the nodes of a test cluster, in the warm process: ready? who leads? lead you."""

import socket
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from testing.settings import HOST
from wire.connections.client_connection import ClientConnection
from wire.errors import RemoteProtocolError
from wire.messages import codec

CLIENT_ID: Final = "kraftline-testing"
METADATA: Final = 3
ELECT_LEADERS: Final = 43
ALTER_REASSIGNMENTS: Final = 45
PREFERRED: Final = 0
TIMEOUT_S: Final = 2.0
RECEIVE_BYTES: Final = 65536
LOOK_AGAIN_S: Final = 0.003


class RefusedError(RuntimeError):
    """The cluster refused, or did not come to what was asked in time."""


def call(port: int, api_key: int, body: Any) -> Any:
    """Send one request on a connection of its own and return the response of kio's newest shape.

    Raises:
        OSError: there is no node, or it does not answer in `TIMEOUT_S`.
    """
    connection = ClientConnection(CLIENT_ID)
    with socket.create_connection((HOST, port), timeout=TIMEOUT_S) as stream:
        stream.sendall(connection.opening_bytes())
        connection.request(api_key, body)
        while received := stream.recv(RECEIVE_BYTES):
            try:
                responses = connection.receive(received)
            except RemoteProtocolError as error:
                raise ConnectionError(str(error)) from error
            if responses:
                return responses[0].body
            stream.sendall(connection.bytes_to_send())
    raise ConnectionError(f"port {port} closed the connection")


def _metadata(port: int, topic: str | None = None) -> Any:
    module = codec.newest(METADATA, "request")
    topics = () if topic is None else (module.MetadataRequestTopic(topic_id=None, name=topic),)
    request = module.MetadataRequest(
        topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    return call(port, METADATA, request)


def ready(ports: list[int], nodes: int, timeout_s: float) -> bool:
    """Wait until the node at each port sees `nodes` live brokers; False if it is too late."""
    return _until(lambda: all(_sees(port, nodes) for port in ports), timeout_s)


def _sees(port: int, nodes: int) -> bool:
    try:
        return len(_metadata(port).brokers) == nodes
    except OSError:
        return False


def _until(condition: Callable[[], bool], timeout_s: float) -> bool:
    until = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_AGAIN_S)
    return True


def _partition(port: int, topic: str, partition: int) -> Any:
    for found in _metadata(port, topic).topics:
        for row in found.partitions:
            if int(row.partition_index) == partition:
                return row
    raise RefusedError(f"no partition {topic}-{partition}")


def leader(ports: list[int], topic: str, partition: int) -> int:
    """The leader of a partition as the first node that answers sees it; -1 for none.

    Raises:
        RefusedError: there is no such partition, or no node answers.
    """
    for port in ports:
        try:
            return int(_partition(port, topic, partition).leader_id)
        except OSError:
            continue
    raise RefusedError("no node answers")


def elect(
    ports: Mapping[str, int], topic: str, partition: int, leader: int, timeout_s: float
) -> None:
    """Make a replica the leader: it becomes the preferred one, which is then elected.

    Args:
        ports: of the nodes that are up, by id.
        topic: name.
        partition: number.
        leader: broker that holds a replica.
        timeout_s: until all nodes see it.

    Raises:
        RefusedError: no node is up; or it holds no replica, is not in sync, or is not seen as the
            leader in time.
    """
    if not ports:
        raise RefusedError("no node is up")
    port = next(iter(ports.values()))
    replicas = [int(one) for one in _partition(port, topic, partition).replica_nodes]
    if leader not in replicas:
        raise RefusedError(f"broker {leader} holds no replica of {topic}-{partition}: {replicas}")
    _prefer(port, topic, partition, [leader, *(one for one in replicas if one != leader)])

    def leads() -> bool:
        seen = [int(_partition(one, topic, partition).leader_id) for one in ports.values()]
        if set(seen) != {leader}:
            _elect_preferred(port, topic, partition)
        return set(seen) == {leader}

    if not _until(leads, timeout_s):
        raise RefusedError(f"{topic}-{partition} is not led by broker {leader}: not in sync?")


def _prefer(port: int, topic: str, partition: int, replicas: list[int]) -> None:
    module = codec.newest(ALTER_REASSIGNMENTS, "request")
    row = module.ReassignablePartition(partition_index=partition, replicas=tuple(replicas))
    request = module.AlterPartitionReassignmentsRequest(
        timeout=timedelta(seconds=TIMEOUT_S),
        allow_replication_factor_change=False,
        topics=(module.ReassignableTopic(name=topic, partitions=(row,)),),
    )
    answer = call(port, ALTER_REASSIGNMENTS, request)
    rows = [one for found in answer.responses for one in found.partitions]
    for one in (answer, *rows):
        if int(one.error_code):
            raise RefusedError(f"{topic}-{partition}: error {int(one.error_code)}")


def _elect_preferred(port: int, topic: str, partition: int) -> None:
    module = codec.newest(ELECT_LEADERS, "request")
    request = module.ElectLeadersRequest(
        election_type=PREFERRED,
        topic_partitions=(module.TopicPartitions(topic=topic, partitions=(partition,)),),
        timeout=timedelta(seconds=TIMEOUT_S),
    )
    call(port, ELECT_LEADERS, request)


OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "ready": ready,
    "leader": leader,
    "elect": elect,
}
