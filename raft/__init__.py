"""KRaft consensus as a deterministic machine: event in, effects out (KIP-595, KIP-630, KIP-996).

`core.RaftCore(config, *, stored state, rng, now_ms)`: `step(event, now_ms) -> Effects(persist,
send, notify)`, `next_deadline_ms()`; read-only `role`, `leader`, `epoch`, `high_watermark`,
`log_end_offset`, `describe_quorum(wall_ms)`. `events`, `effects` and `messages` are the interface;
the order of effects is part of the meaning (`effects.Effects`).
Not in it: bytes of records, disks, sockets, clocks. Differences from Kafka: docs/raft.md.

Role transitions of a voter, by event and current role (`transitions.ALLOWED` holds the same as
sets; an observer is Unattached or Follower and never campaigns). tests/raft/test_role_table.py
compares each cell with what a core does:

|event|Unattached|Prospective|Candidate|Leader|Follower|Resigned|
|---|---|---|---|---|---|---|
|timer expires|Prospective|Unattached, Follower|Prospective|Resigned|Prospective|Unattached|
|evidence of leader failure|Prospective|-|-|-|Prospective|-|
|a majority grants|-|Candidate|Leader|-|-|-|
|a majority rejects|-|Unattached, Follower|-|-|-|-|
|a voter lacks pre-votes|-|Candidate|-|-|-|-|
|vote granted to another voter|Unattached|Prospective|-|-|-|-|
|leader of this epoch discovered|Follower|Follower|Follower|-|-|-|
|higher epoch with a leader|Follower|Follower|Follower|Follower|Follower|Follower|
|higher epoch without one|Unattached|Unattached|Unattached|Unattached|Unattached|Unattached|
|resignation, shutdown or transfer requested|-|-|-|Resigned|-|-|
|disk full|-|Unattached|Unattached|Resigned|-|-|
|timer or evidence on a full disk|Unattached|-|-|-|Unattached|Unattached|
|only voter|Prospective|Candidate|Leader|-|-|Prospective|

All rows but the last are those of a voter that is not alone. A full disk has refused an append and
no space was found since; on it a voter is neither Prospective, Candidate nor Leader. Nor is an
unproven voter of a quorum with records (`elections/proof.py`): the last row but one is its row too.
Timers: the election time-out of Unattached, Prospective, Candidate and Resigned; the fetch time-out
of a Follower; the check-quorum timer of a Leader. Evidence: `elections/evidence.py`, not in Kafka.
"""
