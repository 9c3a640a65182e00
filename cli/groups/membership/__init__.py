"""A member of a group, of either protocol: joins, keeps its place, has partitions, leaves.

- `actions`: what a member wants done, and how that went; `classic`, `consumer`: the members as
  machines without connection or clock (KIP-848 is `consumer`);
- `assignors`, `subscriptions`: the part of the classic protocol that clients decide;
- `requests`: actions as requests of Kafka; `group_consumer`: a blocking consumer with a member.
"""
