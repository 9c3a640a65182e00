"""The committed image as brokers and their clients see it.

Interface:
- `publisher.Publishers`: called in fixed order with every committed (delta, image).
- `metadata_cache.MetadataCache`: `image`, one reference that requests read; `rows`: Metadata
  answers from bytes kept per topic (docs/decisions/0011).
- `responses`: Metadata, DescribeCluster, DescribeTopicPartitions as pure functions of image and
  request.
- `local_changes.local_changes(before, after, delta, broker_id)`: which partitions of a broker
  came and went.
"""
