"""Coordinators of this broker: shards joined to the logs of the partitions that it leads.

- `coordinator.Coordinator`: all shards of one topic: elections and resignations as partitions take
  their roles, high watermarks, flushes at the end of a turn, timers; `loading`: reading of a log in
  slices of a turn's budget; `replica_log.ReplicaLog`: the log that a shard writes;
- `groups.GroupCoordinator`: that of groups, with deleted topics; `topics.InternalTopics`: asks the
  controller for the topic of a coordinator.

Not in it: decisions and images (coordinator/), Kafka's bodies and permissions (broker/apis).
(apache/kafka: core/.../coordinator/group/CoordinatorPartitionWriter.scala,
coordinator-common/.../runtime/CoordinatorRuntime.java, CoordinatorLoaderImpl.java)
"""
