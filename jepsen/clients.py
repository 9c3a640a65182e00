"""Watch of the leader, and client sessions with the nodes: raw requests, each sent once.

Writes go straight to the controller listener of the leader, never through a broker: a broker
forwards a request again after it lost the controller (as Kafka's does), and TOPIC_ALREADY_EXISTS
may then be about one's own creation.

*Quorum reads.* The protocol has no linearizable read: a node answers from its own committed image,
which may be old. So a read first writes a *barrier*: a new value of a config of a topic that
belongs to this client alone. It is answered when it is committed, so everything that was
acknowledged before the read began lies before it in the log. Then any node is asked until its
image shows that value; the content of the same image (or of a later one) is the answer.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from jepsen import inspection_reads
from jepsen.cluster import NodeAddresses
from jepsen.connections import Address, CallError, Connection, Connections
from wire.errors import ErrorCode
from wire.messages.codec import newest
from wire.types import METADATA_TOPIC_NAME

METADATA: Final = 3
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
DESCRIBE_CONFIGS: Final = 32
INCREMENTAL_ALTER_CONFIGS: Final = 44
DESCRIBE_QUORUM: Final = 55
TOPIC_RESOURCE: Final = 2
OPERATION_SET: Final = 0
SOURCE_TOPIC: Final = 1
"""Config source: set on the topic itself."""
CONFIG: Final = "retention.ms"

OPERATION_TIMEOUT_S: Final = 5.0
"""Longer than the server's own, so that the client learns when the server gives up."""
SERVER_TIMEOUT: Final = timedelta(seconds=3)
WATCH_INTERVAL_S: Final = 0.1
VIEW_AGE_MAX_S: Final = 1.0
BARRIER_WAIT_S: Final = 1.0
BARRIER_POLL_S: Final = 0.02
LEADER_POLL_S: Final = 0.02


class Refused(Exception):  # noqa: N818  # not an error of the harness
    """A node answered with an error.

    Attributes:
        code: Kafka's error code.
    """

    def __init__(self, code: int) -> None:
        super().__init__(ErrorCode(code).name)
        self.code: Final = code


class _View(NamedTuple):
    leader_epoch: int
    seen_s: float


class LeaderWatch:
    """Asks every controller continuously whether it leads."""

    def __init__(self, nodes: Mapping[int, NodeAddresses]) -> None:
        self._nodes = nodes
        self._views: dict[int, _View] = {}
        self.epochs: Final[dict[int, int]] = {}
        """Leader by epoch, as the nodes themselves reported."""

    @property
    def leader_id(self) -> int | None:
        """Node that last reported to lead, in the highest epoch; None if no report is recent."""
        now_s = asyncio.get_running_loop().time()
        fresh = {
            node: view.leader_epoch
            for node, view in self._views.items()
            if now_s - view.seen_s < VIEW_AGE_MAX_S
        }
        return max(fresh, key=lambda node: fresh[node]) if fresh else None

    async def wait_leader(self, until_s: float) -> int | None:
        """Wait for a known leader; None if there is none by `until_s` (time of the loop)."""
        while asyncio.get_running_loop().time() < until_s:
            if (leader_id := self.leader_id) is not None:
                return leader_id
            await asyncio.sleep(LEADER_POLL_S)
        return None

    def forget(self, node_id: int) -> None:
        """Forget that the node leads."""
        self._views.pop(node_id, None)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for node_id, addresses in self._nodes.items():
                tasks.create_task(self._watch(node_id, addresses.controller))

    async def _watch(self, node_id: int, address: Address) -> None:
        connection: Connection | None = None
        try:
            while True:
                try:
                    if connection is None:
                        connection = await Connection.opened(address)
                    await self._ask(node_id, connection)
                except CallError:
                    self.forget(node_id)
                    if connection is not None:
                        connection.close()
                        connection = None
                await asyncio.sleep(WATCH_INTERVAL_S)
        finally:
            if connection is not None:
                connection.close()

    async def _ask(self, node_id: int, connection: Connection) -> None:
        request = newest(DESCRIBE_QUORUM, "request")
        partition = request.PartitionData(partition_index=0)
        topic = request.TopicData(topic_name=METADATA_TOPIC_NAME, partitions=(partition,))
        asked_s = asyncio.get_running_loop().time()
        body = request.DescribeQuorumRequest(topics=(topic,))
        answer = await connection.call(DESCRIBE_QUORUM, body, VIEW_AGE_MAX_S)
        for found in (found for topic in answer.topics for found in topic.partitions):
            if found.error_code is ErrorCode.none and found.leader_id == node_id:
                self._views[node_id] = _View(found.leader_epoch, asked_s)
                self.epochs[int(found.leader_epoch)] = node_id
                return
        self.forget(node_id)


class Session:
    """Connections of one client thread, opened when needed, dropped after a failure."""

    def __init__(self, thread: int, nodes: Mapping[int, NodeAddresses], watch: LeaderWatch) -> None:
        """Open nothing yet.

        Args:
            thread: Number of the thread; its barrier topic is named after it.
            nodes: Listeners by node id.
            watch: Knows the leader.
        """
        self.watch: Final = watch
        self.node_ids: Final = tuple(nodes)
        self._barrier_topic = barrier_topic(thread)
        self._barrier_value = 0
        self._nodes = nodes
        self._connections = Connections()

    async def write(self, node_id: int, api_key: int, body: Any) -> Any:
        """Send one request to the controller listener of a node.

        Raises:
            CallError: no response.
        """
        return await self._call(self._nodes[node_id].controller, api_key, body)

    async def barrier(self, leader_id: int) -> int:
        """Commit a new value of this thread's barrier and return it.

        Raises:
            CallError: no response.
            Refused: not committed as far as is known.
        """
        self._barrier_value += 1
        body = set_config(self._barrier_topic, str(self._barrier_value))
        answer = await self.write(leader_id, INCREMENTAL_ALTER_CONFIGS, body)
        raise_for(answer.responses[0].error_code)
        return self._barrier_value

    async def configs(self, node_id: int, topics: tuple[str, ...]) -> list[str | None]:
        """Read the config of topics from one image of a node; None where it is not set.

        Raises:
            CallError: no response.
            Refused: an answer with an error, for an unknown topic for instance.
        """
        address = self._nodes[node_id].controller
        answer = await self._call(address, DESCRIBE_CONFIGS, describe_config(topics))
        values = []
        for result in answer.results:
            raise_for(result.error_code)
            rows = [row for row in result.configs if row.config_source == SOURCE_TOPIC]
            values.append(rows[0].value if rows else None)
        return values

    async def config_behind_barrier(self, leader_id: int, node_id: int, topic: str) -> str | None:
        """Read a topic's config at a node by a quorum read.

        Raises:
            CallError: no response.
            Refused: an answer with an error.
            TimeoutError: the node does not show the barrier in time.
        """
        barrier = str(await self.barrier(leader_id))
        async with asyncio.timeout(BARRIER_WAIT_S):
            while True:
                passed, value = await self.configs(node_id, (self._barrier_topic, topic))
                if passed == barrier:
                    return value
                await asyncio.sleep(BARRIER_POLL_S)

    async def topic_behind_barrier(self, leader_id: int, node_id: int, name: str) -> str | None:
        """Read a topic's id at a node by a quorum read; None: no topic. Raises as the other."""
        barrier = str(await self.barrier(leader_id))
        async with asyncio.timeout(BARRIER_WAIT_S):
            topics = (self._barrier_topic,)
            while await self.configs(node_id, topics) != [barrier]:  # noqa: ASYNC110
                await asyncio.sleep(BARRIER_POLL_S)
        return await self.topic(node_id, name)

    async def linearizable_topic(self, node_id: int, name: str) -> str | None:
        """Read a topic's id by a linearizable read of the inspection API; None: no topic.

        Raises:
            CallError: no response, or none that is linearizable.
        """
        return await inspection_reads.topic_id(self._nodes[node_id].inspection, name)

    async def linearizable_config(self, node_id: int, topic: str) -> str | None:
        """Read a topic's config so; None where it is not set. Raises as the other."""
        return await inspection_reads.config(self._nodes[node_id].inspection, topic, CONFIG)

    async def topic(self, node_id: int, name: str) -> str | None:
        """Read a topic's id from the image of a node, maybe an old one; None: it does not exist.

        Raises:
            CallError: no response.
            Refused: any error but that the topic is unknown.
        """
        request = newest(METADATA, "request")
        asked = request.MetadataRequestTopic(topic_id=None, name=name)
        body = request.MetadataRequest(
            topics=(asked,),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        answer = await self._call(self._nodes[node_id].broker, METADATA, body)
        (found,) = answer.topics
        if found.error_code is ErrorCode.unknown_topic_or_partition:
            return None
        raise_for(found.error_code)
        return str(found.topic_id)

    def close(self) -> None:
        """Drop all connections."""
        self._connections.close()

    async def _call(self, address: Address, api_key: int, body: Any) -> Any:
        return await self._connections.call(address, api_key, body, OPERATION_TIMEOUT_S)


def barrier_topic(thread: int) -> str:
    """Topic whose config only this thread changes."""
    return f"barrier-{thread}"


def raise_for(code: ErrorCode) -> None:
    """Raise Refused unless the code is no error."""
    if code is not ErrorCode.none:
        raise Refused(code.value)


def create_topics(names: tuple[str, ...]) -> Any:
    """Make a CreateTopics of topics with one partition and one replica."""
    request = newest(CREATE_TOPICS, "request")
    topics = tuple(
        request.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        for name in names
    )
    return request.CreateTopicsRequest(topics=topics, timeout=SERVER_TIMEOUT, validate_only=False)


def set_config(topic: str, value: str) -> Any:
    """Make an IncrementalAlterConfigs that sets the config of a topic."""
    request = newest(INCREMENTAL_ALTER_CONFIGS, "request")
    config = request.AlterableConfig(name=CONFIG, config_operation=OPERATION_SET, value=value)
    resource = request.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configs=(config,)
    )
    return request.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def describe_config(topics: tuple[str, ...]) -> Any:
    """Make a DescribeConfigs of the config of topics."""
    request = newest(DESCRIBE_CONFIGS, "request")
    resources = tuple(
        request.DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=(CONFIG,)
        )
        for topic in topics
    )
    return request.DescribeConfigsRequest(
        resources=resources, include_synonyms=False, include_documentation=False
    )
