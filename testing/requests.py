"""Requests to the nodes of a test cluster, in the warm process: ready? who leads? lead you."""

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar

from testing.errors import RefusedError
from testing.settings import HOST
from wire.connections.client_connection import ClientConnection
from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages import codec

CLIENT_ID: Final = "kraftline-testing"
METADATA: Final = 3
ELECT_LEADERS: Final = 43
ALTER_REASSIGNMENTS: Final = 45
PREFERRED: Final = 0
TIMEOUT_S: Final = 2.0
RECEIVE_BYTES: Final = 65536
LOOK_AGAIN_S: Final = 0.003
KNOWN_S: Final = 1.0
"""Time for a node to learn of a topic that another one knows."""
TOPICS_SHOWN: Final = 10

T = TypeVar("T")


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


def _metadata(port: int, *names: str) -> Any:
    """The brokers, and the topics that are named."""
    module = codec.newest(METADATA, "request")
    topics = tuple(module.MetadataRequestTopic(topic_id=None, name=name) for name in names)
    return _metadata_of(port, topics)


def _metadata_of(port: int, topics: tuple[Any, ...] | None) -> Any:
    module = codec.newest(METADATA, "request")
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
    found = partition_of(_metadata(port, topic), topic, partition)
    if found is None:
        raise RefusedError(missing(_metadata_of(port, None), topic, partition))
    return found


def partition_of(metadata: Any, topic: str, partition: int) -> Any:
    """The row of a partition in a response to Metadata; None if it has none."""
    rows = _partitions(metadata).get(topic, ())
    return next((row for row in rows if int(row.partition_index) == partition), None)


def missing(metadata: Any, topic: str, partition: int) -> str:
    """Reason why there is no such partition: one line, of a response that has all topics."""
    known = _partitions(metadata)
    if topic in known:
        return f"topic {topic} has partitions 0 to {len(known[topic]) - 1}, no {partition}"
    names = sorted(known)[:TOPICS_SHOWN]
    more = ["..."] if len(known) > len(names) else []
    return f"there is no topic {topic}; there are: {', '.join([*names, *more]) or 'none'}"


def _partitions(metadata: Any) -> dict[str, Any]:
    return {str(found.name): found.partitions for found in metadata.topics if found.partitions}


def from_any(ports: Iterable[int], ask: Callable[[int], T], timeout_s: float = KNOWN_S) -> T:
    """Answer of the first node that has one; all are asked again until it is too late.

    A node learns of a new topic some milliseconds after another one has answered its creation.

    Raises:
        RefusedError: no node has one; the reason is that of the last which answered.
    """
    ports = list(ports)
    if not ports:
        raise RefusedError("no node is up")
    until = time.monotonic() + timeout_s
    while True:
        reason = "no node answers"
        for port in ports:
            try:
                return ask(port)
            except RefusedError as error:
                reason = str(error)
            except OSError:
                continue
        if time.monotonic() >= until:
            raise RefusedError(reason)
        time.sleep(LOOK_AGAIN_S)


def leader(ports: list[int], topic: str, partition: int) -> int:
    """The leader of a partition as the first node that knows it sees it; -1 for none.

    Raises:
        RefusedError: there is no such partition, or no node answers.
    """
    return from_any(ports, lambda port: int(_partition(port, topic, partition).leader_id))


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
    port, row = from_any(ports.values(), lambda port: (port, _partition(port, topic, partition)))
    replicas = [int(one) for one in row.replica_nodes]
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
            name = ErrorCode(int(one.error_code)).name.upper()
            raise RefusedError(f"{topic}-{partition}: {name}")


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
