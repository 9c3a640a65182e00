"""Transactions that nobody will end, as a broker had them that did not verify its partitions.

They are written to partitions that no coordinator was told of, while
`transaction.partition.verification.enable` is off (KIP-890 is what keeps them out).
"""

import time
from datetime import timedelta
from typing import Any, Final

import kio.schema.produce.v11.request as produce
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from cli.client import Client
from cli.connect import Cluster, parse_addresses
from cli.records.clients.topic_metadata import METADATA
from wire.api_keys import PRODUCE
from wire.batches.batch import TRANSACTIONAL_BIT, BatchHeader, RecordView, encode_records
from wire.errors import ErrorCode
from wire.messages.record_requests import metadata_request
from wire.types import LeaderEpoch, Offset

SECONDS: Final = 30.0
ALL: Final = -1
OLD_VERSION: Final = 11
"""Of Produce: a leader adds the partitions of newer ones by itself."""
WRITTEN_MS: Final = 1_700_000_000_000
"""Time of the records, years ago: no transaction may last so long."""
VERIFIES: Final = "transaction.partition.verification.enable"


def verify(bootstrap: str, *, is_on: bool) -> None:
    """Let all brokers verify the partitions of transactions, or not."""
    entry = ConfigEntry(VERIFIES, str(is_on).lower(), incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for broker in admin.list_topics(timeout=SECONDS).brokers:
        resource = ConfigResource(
            ConfigResource.Type.BROKER, str(broker), incremental_configs=[entry]
        )
        admin.incremental_alter_configs([resource])[resource].result(SECONDS)


def hang(bootstrap: str, topic: str, partition: int, producer_id: int) -> int:
    """Write a record of a transaction that no coordinator knows; return its offset."""
    with Cluster(parse_addresses(bootstrap), is_controllers=False) as cluster:
        answer: Any = cluster.call(METADATA, metadata_request((topic,)))
    (found,) = answer.topics
    leader = next(row.leader_id for row in found.partitions if row.partition_index == partition)
    broker = next(row for row in answer.brokers if row.node_id == leader)
    data = produce.PartitionProduceData(index=partition, records=_batch(producer_id))
    body = produce.ProduceRequest(
        transactional_id="nobody",
        acks=ALL,
        timeout=timedelta(seconds=SECONDS),
        topic_data=(produce.TopicProduceData(name=topic, partition_data=(data,)),),
    )
    client = Client(broker.host, broker.port)
    client._connection._version_limits[PRODUCE] = OLD_VERSION
    deadline = time.monotonic() + SECONDS
    try:
        while True:  # until the leader has the config
            row = client.call(PRODUCE, body).responses[0].partition_responses[0]
            if row.error_code is ErrorCode.none:
                return int(row.base_offset)
            assert time.monotonic() < deadline, row
            time.sleep(0.1)
    finally:
        client.close()


def _batch(producer_id: int) -> bytes:
    header = BatchHeader(
        base_offset=Offset(0),
        leader_epoch=LeaderEpoch(-1),
        attributes=TRANSACTIONAL_BIT,
        last_offset_delta=0,
        base_timestamp_ms=WRITTEN_MS,
        max_timestamp_ms=WRITTEN_MS,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        records_count=1,
    )
    return encode_records(header, [RecordView(Offset(0), WRITTEN_MS, None, b"7777")])
