"""Common parts of producers and consumers: raw Kafka protocol, leaders found by metadata."""

from collections.abc import Callable
from random import Random
from typing import Any, Final
from uuid import UUID

import msgspec

from simulator.checks.partitions.records import RecordChecks
from simulator.cluster.network import Network, Pipe
from simulator.cluster.scheduler import Scheduler
from simulator.records.client_link import Answered, ClientLink
from wire.api_keys import METADATA
from wire.errors import ErrorCode
from wire.messages.record_requests import metadata_request

REQUEST_US: Final = 4_000_000
RETRY_US: Final = 100_000
RETRIED: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.kafka_storage_error,
        ErrorCode.leader_not_available,
        ErrorCode.offset_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.replica_not_available,
    }
)
"""Errors after which a client asks for metadata and tries again."""


class Topic(msgspec.Struct, frozen=True):
    """The topic that clients use."""

    name: str
    partitions: int


class Cluster(msgspec.Struct, frozen=True):
    """The cluster as its clients reach it."""

    topic: Topic
    nodes: tuple[int, ...]
    rng: Random
    network: Network
    scheduler: Scheduler
    connect: Callable[[ClientLink], Pipe]
    checks: RecordChecks


class PartitionClient:
    """A client of one partition: finds its leader through any node, and asks that."""

    def __init__(self, cluster: Cluster, host: int, partition: int) -> None:
        self.cluster = cluster
        self.checks = cluster.checks
        self.topic_name = cluster.topic.name
        self.rng = cluster.rng
        self.scheduler = cluster.scheduler
        self.host = host
        self.partition = partition
        self.topic_id: UUID | None = None
        self.is_stopped = False
        self.leader_epoch = -1
        self.asked = self.answered = 0
        """Requests, and those of them with a response."""
        self._leader: int | None = None
        self._link: ClientLink | None = None

    @property
    def key(self) -> tuple[bytes, int]:
        """The partition, by the id of its topic."""
        assert self.topic_id is not None, "it has a leader"
        return self.topic_id.bytes, self.partition

    @property
    def leader(self) -> int:
        """The leader that is known."""
        assert self._leader is not None, "it was found"
        return self._leader

    def ask_leader(self, api_key: int, body: Any, answered: Answered) -> None:
        """Send a request to the leader that is known."""
        self.ask(self.leader, api_key, body, answered)

    def tell_leader(self, api_key: int, body: Any) -> None:
        """Send the leader a request that has no response."""
        self._link_to(self.leader).tell(api_key, body)

    def ask_any(self, api_key: int, body: Any, answered: Answered) -> None:
        """Send a request to a node drawn."""
        self.ask(self.rng.choice(self.cluster.nodes), api_key, body, answered)

    def _link_to(self, target: int) -> ClientLink:
        link = self._link
        if link is None or link.is_closed or link.target != target:
            if link is not None:
                link.close()
            self._link = link = self.make_link(target)
        return link

    def make_link(self, target: int) -> ClientLink:
        """A connection to a node."""
        cluster = self.cluster
        return ClientLink(self.host, target, cluster.network, cluster.scheduler, cluster.connect)

    def ask(self, target: int, api_key: int, body: Any, answered: Answered) -> None:
        """Send a request to a node."""
        self.asked += 1

        def counted(response: Any) -> None:
            self.answered += response is not None
            answered(response)

        self._link_to(target).request(api_key, body, counted, REQUEST_US)

    def find_leader(self, found: Callable[[], None]) -> None:
        """Ask nodes for the leader until one knows it, and none of an older epoch."""

        def answered(body: Any) -> None:
            if body is not None and body.topics[0].error_code is ErrorCode.none:
                topic = body.topics[0]
                rows = topic.partitions if self._note_topic(topic.topic_id) else ()
                for row in rows:
                    is_newer = row.leader_epoch >= self.leader_epoch and row.leader_id >= 0
                    if row.partition_index == self.partition and is_newer:
                        self._leader = row.leader_id
                        self.leader_epoch = row.leader_epoch
                        found()
                        return
            self.later(lambda: self.find_leader(found))

        topic = self.cluster.topic
        self.ask_any(METADATA, metadata_request((topic.name,)), answered)

    def _note_topic(self, topic_id: UUID) -> bool:
        """Follow the topic to its newest id; False for one that is deleted, of a stale node.

        A producer that went back and forth would begin twice with what the new topic has; and one
        that met the newest first, then one between, would wait for that for ever.
        """
        former = self.topic_id
        if topic_id == former:
            return True
        if former is not None and not self.checks.exists(topic_id.bytes):
            return False
        self.topic_id, self.leader_epoch = topic_id, -1
        if former is not None:
            self.topic_changed()
        return True

    def topic_changed(self) -> None:
        """Begin anew: the topic was deleted and created again."""

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._link is not None:
            self._link.close()

    def later(self, act: Callable[[], None], mean_us: int = RETRY_US) -> None:
        """Do something after a pause."""
        delay_us = 1_000 + int(self.rng.expovariate(1.0) * mean_us)
        self.scheduler.after(delay_us, act)
