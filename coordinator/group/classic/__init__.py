"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup; clients assign.

What no record has (members that wait, deadlines of sessions) is one `group.ClassicGroup` for each
group; a record is written when the leader's assignment is known, and when the last member has gone.

- `room.ClassicRoom`: what a `GroupMachine` runs; its `rules` are for decisions about offsets;
- `groups.ClassicGroups`: all groups of a shard; finds the group of a request;
- `states`, `member`, `group`: a group, its members and the only table of its transitions;
- `rebalance`, `joining`, `syncing`, `leaving`, `heartbeats`: what requests and deadlines do to one;
- `change`: what each of these returns: records, and what follows when they are committed or lost;
- `requests`, `responses`, `views`: what arrives, what is answered, what admin clients see.

Not in it: the image and its records (coordinator/group), offsets, who may ask (broker/apis).
(apache/kafka: group-coordinator/.../GroupMetadataManager.java, classic/)
"""
