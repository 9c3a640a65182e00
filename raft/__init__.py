"""KRaft consensus as a deterministic machine: event in, effects out (KIP-595, KIP-630, KIP-996).

`core.RaftCore(config, *, what the replica remembers, rng, now_ms)`: `step(event, now_ms) ->
Effects(persist, send, notify)`, `next_deadline_ms()`; read-only `role`, `leader`, `epoch`,
`high_watermark`, `log_end_offset`, `describe_quorum(wall_ms)`. `events`, `effects` and `messages`
are the interface; the order of effects is part of the meaning (`effects.in_order`).
Not in it: bytes of records, disks, sockets, clocks. Differences from Kafka: docs/raft.md.

What a voter becomes, by its role and by what happens (`transitions.ALLOWED` is the same as sets;
an observer is Unattached or Follower and never campaigns):

|what happens|Unattached|Prospective|Candidate|Leader|Follower|Resigned|
|---|---|---|---|---|---|---|
|its timer expires|Prospective|Unattached, Follower|Prospective|Resigned|Prospective|Unattached|
|evidence that nobody leads|Prospective|-|-|-|Prospective|-|
|a majority grants|-|Candidate|Leader|-|-|-|
|a majority refuses|-|Unattached, Follower|-|-|-|-|
|it grants a vote to another|Unattached|Prospective|-|-|-|-|
|a leader of this epoch is named|Follower|Follower|Follower|-|-|-|
|a higher epoch with a leader|Follower|Follower|Follower|Follower|Follower|Follower|
|a higher epoch without one|Unattached|Unattached|Unattached|Unattached|Unattached|Unattached|
|resign or shut down is asked|-|-|-|Resigned|-|-|
|its disk is full, not alone|-|Unattached|Unattached|Resigned|Unattached|-|
|it is the only voter|Prospective|Candidate|Leader|-|-|Prospective|

Timers: the election time-out of Unattached, Prospective, Candidate and Resigned; the fetch time-out
of a Follower; check quorum of a Leader. Evidence: `evidence.py`, not in Kafka.
"""
