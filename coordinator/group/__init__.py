"""Groups of consumers and their offsets: the coordinator of a partition of `__consumer_offsets`.

- `image.GroupsImage`: groups and offsets of a partition; `apply`, `apply_marker`: the only meaning
  of its records;
- room `offsets`: decisions on commits, fetches, deletions and the expiry of offsets;
- `rules.GroupRules`: what they ask of a group; `machine.GroupMachine`: what a shard runs, with
  timers, and rooms that have soft state of their own; `config`: the settings.

Not in it: the log (broker/coordinators), who may ask (broker/apis).
(apache/kafka: group-coordinator/.../GroupCoordinatorShard.java)
"""
