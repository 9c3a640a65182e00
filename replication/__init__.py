"""Replicas of partitions as values: who is in sync, what is committed, and who waits for it.

Interface:
- `fetch_session.FetchManager`: `new_context` for each Fetch; the context names the partitions to
  read and selects the rows of the response (KIP-227).
- `purgatory.Purgatory`: `try_complete_else_watch`, `check(key)`, `expire(now_ms)`; operations that
  wait for an event, each until its deadline.
- `delayed`: `DelayedProduce`, `DelayedFetch`, `DelayedDeleteRecords`, and their conditions as
  functions.
- `replica.ReplicaState`: a follower as its leader knows it from its fetches.
- `isr`: the committed and pending ISRs of a led partition, what an answer of the controller means,
  high and low watermark; values and functions of values.
- `alter_partition.AlterPartitions`: proposals of ISRs, batched, one request in flight.
- `log_offsets`: an offset with its place in the log.

Not in it: sockets and logs (broker/ and storage/), the election of leaders (quorum_controller/).
"""
