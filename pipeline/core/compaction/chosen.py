"""Partitions that are known as compacted."""

from typing import Final

from pipeline.core.reading.discovery import PartitionFiles, discover
from wire.types import METADATA_TOPIC_NAME

INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")


def known_partitions(data: list[PartitionFiles]) -> list[PartitionFiles]:
    """Copies of all partitions of the topics that are known as compacted."""
    cleaned = {one.topic for one in data if one.is_cleaned} | set(INTERNAL_TOPICS)
    return [one for one in data if one.topic in cleaned]


def data_partitions(inputs: tuple[str, ...]) -> list[PartitionFiles]:
    """Copies of all partitions with segments, without the metadata log."""
    listing = discover(inputs)
    return [p for p in listing.partitions if p.segments and p.topic != METADATA_TOPIC_NAME]
