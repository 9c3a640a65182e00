"""Requests of one client about records: leaders, appends, fetches; each is sent once."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from jepsen.clients import METADATA, OPERATION_TIMEOUT_S, SERVER_TIMEOUT, Refused, raise_for
from jepsen.cluster import NodeAddresses
from jepsen.connections import Connections
from jepsen.records.requests import TopicPartition
from wire.api_keys import FETCH, INIT_PRODUCER_ID, LIST_OFFSETS, PRODUCE
from wire.batches.batch import iterate_batches
from wire.errors import CorruptBatchError, ErrorCode
from wire.messages.record_requests import (
    fetch_request,
    init_producer_id_request,
    list_offsets_request,
    metadata_request,
    produce_request,
)

METADATA_TIMEOUT_S: Final = 1.5
"""Time after which another node is asked, since this one may be paused."""
NO_LEADER: Final = -1
FETCH_BYTES_MAX: Final = 1024 * 1024
_LATEST: Final = -1
_ALL: Final = -1
"""Acks of all replicas in sync."""
_TRANSACTION_TIMEOUT: Final = timedelta(seconds=60)


class PartitionView(msgspec.Struct, frozen=True):
    """A partition as a broker knows it, which may be old."""

    topic_id: UUID
    leader_id: int
    """NO_LEADER if it has none."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Row(NamedTuple):
    """A record as it was read."""

    offset: int
    leader_epoch: int
    content: bytes


class Brokers:
    """Connections of one client with the broker listeners."""

    def __init__(
        self, nodes: Mapping[int, NodeAddresses], topics: Sequence[str], rng: Random
    ) -> None:
        """Open nothing yet.

        Args:
            nodes: Listeners by node id.
            topics: All topics of the run.
            rng: Chooses whom to ask for leaders.
        """
        self.node_ids: Final = tuple(nodes)
        self._nodes = nodes
        self._topics = tuple(topics)
        self._rng = rng
        self._connections = Connections()

    async def views(self, node_id: int | None = None) -> dict[TopicPartition, PartitionView]:
        """Ask a node, by default any, for the leaders of all partitions.

        Raises:
            CallError: no response.
            Refused: a topic is not known.
        """
        asked = self._rng.choice(self.node_ids) if node_id is None else node_id
        body = metadata_request(self._topics)
        answer = await self._call(asked, METADATA, body, METADATA_TIMEOUT_S)
        found = {}
        for topic in answer.topics:
            raise_for(topic.error_code)
            for row in topic.partitions:
                key = TopicPartition(str(topic.name), int(row.partition_index))
                found[key] = PartitionView(
                    topic_id=topic.topic_id,
                    leader_id=int(row.leader_id),
                    leader_epoch=int(row.leader_epoch),
                    replicas=tuple(int(node) for node in row.replica_nodes),
                    isr=tuple(int(node) for node in row.isr_nodes),
                )
        return found

    async def producer_id(self) -> tuple[int, int]:
        """Get a new producer id with its epoch from any node.

        Raises:
            CallError: no response.
            Refused: an answer with an error.
        """
        asked = self._rng.choice(self.node_ids)
        body = init_producer_id_request(_TRANSACTION_TIMEOUT)
        answer = await self._call(asked, INIT_PRODUCER_ID, body, OPERATION_TIMEOUT_S)
        raise_for(answer.error_code)
        return int(answer.producer_id), int(answer.producer_epoch)

    async def produce(self, view: PartitionView, number: int, batch: bytes) -> int:
        """Append a batch at the leader; return its base offset.

        Raises:
            CallError: no response.
            Refused: an answer with an error.
        """
        body = produce_request({view.topic_id: {number: batch}}, _ALL, SERVER_TIMEOUT)
        answer = await self._call(view.leader_id, PRODUCE, body, OPERATION_TIMEOUT_S)
        ((row,),) = [topic.partition_responses for topic in answer.responses]
        raise_for(row.error_code)
        return int(row.base_offset)

    async def fetch(
        self, node_id: int, view: PartitionView, number: int, offset: int, wait_ms: int
    ) -> list[Row]:
        """Read the records of a partition that a node gives from an offset on.

        Raises:
            CallError: no response.
            Refused: an answer with an error; CORRUPT_MESSAGE also for records that are damaged.
        """
        return rows_of(await self.fetch_batches(node_id, view, number, offset, wait_ms), offset)

    async def fetch_batches(
        self, node_id: int, view: PartitionView, number: int, offset: int, wait_ms: int
    ) -> bytes:
        """Read batches of a partition, the last maybe cut; raises as `fetch`, but not of damage."""
        body = fetch_request(
            {view.topic_id: {number: offset}},
            timedelta(milliseconds=wait_ms),
            max_bytes=FETCH_BYTES_MAX,
            partition_max_bytes=FETCH_BYTES_MAX,
        )
        answer = await self._call(node_id, FETCH, body, OPERATION_TIMEOUT_S)
        raise_for(answer.error_code)
        ((row,),) = [topic.partitions for topic in answer.responses]
        raise_for(row.error_code)
        return bytes(row.records or b"")

    async def end_offset(
        self, node_id: int, partition: TopicPartition, *, is_stable: bool = False
    ) -> int:
        """Ask the leader for the offset behind the last committed record.

        Args:
            node_id: The leader.
            partition: Which.
            is_stable: The last stable offset: before the first record of an open transaction.

        Raises:
            CallError: no response.
            Refused: an answer with an error.
        """
        wanted = {partition.topic: (partition.number,)}
        isolation = int(is_stable)
        body = list_offsets_request(wanted, _LATEST, SERVER_TIMEOUT, isolation_level=isolation)
        answer = await self._call(node_id, LIST_OFFSETS, body, OPERATION_TIMEOUT_S)
        ((row,),) = [topic.partitions for topic in answer.topics]
        raise_for(row.error_code)
        return int(row.offset)

    def close(self) -> None:
        """Drop all connections."""
        self._connections.close()

    async def _call(self, node_id: int, api_key: int, body: Any, timeout_s: float) -> Any:
        address = self._nodes[node_id].broker
        return await self._connections.call(address, api_key, body, timeout_s)


def rows_of(content: bytes, offset: int) -> list[Row]:
    """Records of fetched batches from an offset on; control batches are left out.

    Raises:
        Refused: the batches are damaged.
    """
    found: list[Row] = []
    try:
        for batch in iterate_batches(content):
            if not batch.crc_is_valid:
                raise Refused(ErrorCode.corrupt_message.value)
            if batch.header.is_control:
                continue
            epoch = int(batch.header.leader_epoch)
            found += [
                Row(int(record.offset), epoch, record.value or b"")
                for record in batch.records()
                if record.offset >= offset
            ]
    except CorruptBatchError as error:
        raise Refused(ErrorCode.corrupt_message.value) from error
    return found
