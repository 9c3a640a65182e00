"""Coordinators of groups and transactions: state machines over one partition each.

Rooms: `records` (keys and values of `__consumer_offsets` and `__transaction_state`, declared once),
`runtime` (one partition that this broker coordinates, as an image that records change).

Not in it: logs, replicas, sockets. `broker/coordinators` joins a shard to the log of its partition.
(apache/kafka: coordinator-common, group-coordinator, transaction-coordinator)
"""
