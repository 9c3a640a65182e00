"""Blocking client with `wire.messages.codec`, for work that is not measured in µs."""

import itertools
import struct
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from benchmarks.clusters.protocol import Connection
from wire.messages import codec

CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
METADATA: Final = 3
API_VERSIONS: Final = 18
DESCRIBE_QUORUM: Final = 55
DESCRIBE_CLUSTER: Final = 60
VERSIONS: Final = {1: 17, 3: 12, 18: 4, 19: 7, 20: 6, 45: 1, 55: 0, 60: 1, 62: 4, 63: 1}
"""Versions that both Kafka 4.3 and kraftline serve."""
TIMEOUT: Final = timedelta(seconds=60)


class RefusedError(Exception):
    """An answer with an error code."""


class TypedClient:
    """One connection, one request at a time, bodies in kio's newest classes."""

    def __init__(self, address: str, timeout_s: float = 60.0) -> None:
        self._connection = Connection(address, timeout_s)
        self._ids = itertools.count()

    def ask(self, api_key: int, body: Any) -> Any:
        """Send a request; returns the answer's body, which `check` tests for errors."""
        self.send(api_key, body)
        frame = self.receive_frame()
        return codec.read_response(api_key, VERSIONS[api_key], frame)[1]

    def send(self, api_key: int, body: Any) -> None:
        """Send a request without waiting."""
        frame = codec.encode_request(api_key, VERSIONS[api_key], next(self._ids), "measure", body)
        self._connection.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive_frame(self) -> bytes:
        """Receive the next answer, header included, undecoded."""
        return self._connection.receive_frame()

    def close(self) -> None:
        """Close the socket."""
        self._connection.close()


def request(api_key: int) -> Any:
    """Newest request module of an API."""
    return codec.newest(api_key, "request")


def check(answer: Any) -> Any:
    """The answer, if neither it nor any of its rows has an error."""
    for row in (answer, *getattr(answer, "topics", ()), *getattr(answer, "responses", ())):
        code = getattr(row, "error_code", None)
        if code is not None and code.value:
            raise RefusedError(f"{type(row).__name__}: {code.name} {row}"[:300])
    return answer


def create_assigned(client: TypedClient, topics: dict[str, list[tuple[int, ...]]]) -> None:
    """Create topics with given replicas of each partition, about 5000 records in a request."""
    new = request(CREATE_TOPICS)
    names = list(topics)
    partitions = max(map(len, topics.values()))
    step = min(1000, max(1, 5000 // (partitions + 1)))
    for start in range(0, len(names), step):
        rows = tuple(
            new.CreatableTopic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=tuple(
                    new.CreatableReplicaAssignment(partition_index=number, broker_ids=replicas)
                    for number, replicas in enumerate(topics[name])
                ),
                configs=(),
            )
            for name in names[start : start + step]
        )
        check(client.ask(CREATE_TOPICS, new.CreateTopicsRequest(topics=rows, timeout=TIMEOUT)))


def delete_topics(client: TypedClient, names: list[str]) -> None:
    """Delete topics, 1000 in a request."""
    new = request(DELETE_TOPICS)
    for start in range(0, len(names), 1000):
        rows = tuple(
            new.DeleteTopicState(name=name, topic_id=None) for name in names[start : start + 1000]
        )
        check(client.ask(DELETE_TOPICS, new.DeleteTopicsRequest(topics=rows, timeout=TIMEOUT)))


def metadata_request(names: list[str] | None) -> Any:
    """A Metadata body: topics by name, None for all."""
    new = request(METADATA)
    rows = None
    if names is not None:
        rows = tuple(new.MetadataRequestTopic(name=name, topic_id=None) for name in names)
    return new.MetadataRequest(
        topics=rows, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


def describe_cluster_request(endpoint_type: int) -> Any:
    """A DescribeCluster body: endpoint type 1 asks a broker, 2 a controller."""
    return request(DESCRIBE_CLUSTER).DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=endpoint_type,
        include_fenced_brokers=False,
    )


def describe_quorum_request() -> Any:
    """A DescribeQuorum body for the metadata partition."""
    new = request(DESCRIBE_QUORUM)
    partition = new.PartitionData(partition_index=0)
    topic = new.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    return new.DescribeQuorumRequest(topics=(topic,))


def wait_until(condition: Any, seconds: float, what: str | Callable[[], str]) -> None:
    """Poll a condition every 5 ms; `what` is the text of the error, computed only then."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            text = what if isinstance(what, str) else what()
            raise TimeoutError(f"not within {seconds} s: {text}")
        time.sleep(0.005)
