"""The committed image as published to the broker and its clients.

Interface:
- `publisher.Publishers`: called in fixed order with every committed (image, delta).
- `metadata_cache.MetadataCache`: `image`, one reference that requests read; `rows`: Metadata
  responses from bytes cached per topic (docs/decisions/0011).
- `responses`: Metadata, DescribeCluster, DescribeTopicPartitions as pure functions of image and
  request.
- `local_changes.local_changes(before, after, delta, broker_id)`: partitions that a broker gains
  and loses.
- `log_dirs`: DescribeLogDirs, of the replicas that its caller finds.
"""
