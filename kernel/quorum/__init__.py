"""The metadata log of this node as a replica of the quorum: raft core, disk and controller joined.

In it: `replica.Replica` (core, log and peers), persist effects on the disk, proposals and commits
of the controller, writing, fetching, reading and retention of snapshots, raft messages as Kafka's
bodies (messages/).
Not in it: consensus (raft/), files (storage/), the meaning of records (metadata/).
"""
