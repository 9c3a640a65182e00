"""One whole node as a value: events and bytes in, effects out.

Interface: `kernel.Kernel(config, vfs, rng, *, cluster_id, directory_ids, now, decoding, port)`:
`start(now)`, `take(events, now)` and `settle()` (the halves of a step, docs/decisions/0013),
`next_deadline_ms()`, `close()`. `decoding` are decoders that a driver may choose. `events` and
`effects` are exchanged with a driver: node/driver.py or the simulator's machine. `turn.Turn`, which
both run, decides the order of sends and where the log is flushed. With a `port.RecordsPort` the
records of the broker are served beside it, and joined by the `Records...` events and effects.
Subpackages: `serving` (requests of listeners), `quorum` (the metadata log as a replica),
`lifecycle` (joining and leaving the cluster), `lost_majority` (recovery, on folders of stopped
nodes). Here: `config`, `opening` and `formatting` of log directories, the composition.
Raft's persist effects are written in the step (quorum-state with its fsync); flushes go to the
driver. Each part sets its deadline by name in `network.timers.Timers`; the first one is the time of
the next step at the latest.
Not in it: consensus (raft/), decisions (quorum_controller/), connections (network/), any I/O but
the disk's.
"""
