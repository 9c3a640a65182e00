"""One partition of a coordinator's topic as a state machine, and all those of a topic.

- `write`: the outcome of a decision, and Kafka's mapping of errors; `machine`: the protocols that a
  coordinator (`Machine`) and the log of its partition (`ShardLog`) fill;
- `shard.Shard`: image, committed image, writes that wait for the high watermark;
- `shards.Shards`: the shards that this broker coordinates, by partition; `partition_for`.

Not in it: logs and elections (broker/coordinators), the meaning of records.
(apache/kafka: coordinator-common/.../runtime/CoordinatorRuntime.java)
"""
