"""Replicas of partitions as values: who is in sync, what is committed, and who waits for it.

Interface:
- `partition.Partition`: a replica at this broker as leader, follower or offline: `make_leader`,
  `make_follower`, `append_as_leader`, `append_as_follower`, `fetch`, `truncate_to_leader`,
  `offset_for_timestamp`, `delete_records_on_leader`, `maybe_shrink_isr`, `on_answer`. A refusal is
  an `ErrorCode`; what a step changed is returned (`leader.leadership.Changed`,
  `roles.Transition`).
- `roles`: those of a partition that this broker does not lead, and settings of its topic.
- `leader.leadership.Leadership`: the same partition at its leader, as `leader.delayed.Leader` sees
  it; a part of it: `log_ends.LogEnds`.
- `follower.fetchers`: partitions to fetch, by leader; `follower.fetcher` is one link to a leader.
- `reading`, `follower.following`: reads by offset and by time; what a follower appends and
  truncates.
- `leader.fetch_session.FetchManager`: `new_context` for each Fetch; the context names the
  partitions to read and selects the rows of the response (KIP-227).
- `leader.purgatory.Purgatory`: `try_complete_else_watch`, `check(key)`, `expire(now_ms)`;
  operations that wait for an event, each until its deadline.
- `leader.delayed`, `leader.delayed_fetch`: `DelayedProduce`, `DelayedDeleteRecords`,
  `DelayedFetch`, and their conditions as functions; `leader.waiting`: those that wait, by kind.
- `leader.replica.ReplicaState`: a follower as its leader knows it from its fetches.
- `leader.isr`: the committed and pending ISRs of a led partition, what an answer of the controller
  means, high and low watermark; values and functions of values.
- `leader.alter_partition.AlterPartitions`: proposals of ISRs, batched, one request in flight.
- `replica_manager.ReplicaManager`: the partitions of a broker with the requests that wait for
  them: `append`, `fetch`, `delete_records`, `took`, `check`, proposals, `tick`; its parts:
  `leader.appending`, `leader.fetching`.
- `log_offsets`: an offset with its place in the log.

Not in it: sockets (broker/), the files of logs (storage/), the election of leaders
(quorum_controller/).
"""
