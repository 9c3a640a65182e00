"""Kafka's files on disk: the log and the small files around it, through one file system interface.

Interface:
- `vfs.Vfs`: the file system interface; `os_vfs.OsVfs` is that of the operating system (the
  simulated disk: simulator/cluster/memory_vfs).
- `log.Log.open(vfs, directory, config, recovery_point, log_start_offset)`: `append`,
  `append_fetched`, `read(offset, max_bytes, end_offset)`, `truncate_to`,
  `truncate_fully_and_start_at`, `flush_plan() -> FlushPlan` (any thread may `run()` it),
  `flush_done`, `epoch_entries`, `end_offset`, `close`.
- `unified_log.UnifiedLog`: the log of a partition over a `Log` that is opened with
  `syncs_at_open=False`: `append_as_leader`, `append_as_follower`, `slice`, offsets by time, high
  watermark and last stable offset, truncation, deletion from the start.
  `retention.deletable_count` chooses the segments that go.
- `log_validator`: `parse_produced`, `validated`, `stamp` of a batch that a producer sends.
  `producer_state.ProducerStates`: duplicates, sequences and open transactions of a partition;
  `producer_replay.replay` feeds it from a log, `producer_snapshot` is its file.
- `quorum_state_file`, `meta_properties`, `snapshot_files`, `checkpoint_files`,
  `clean_shutdown_file`, `directory_lock`, `partition_directories`, `bootstrap_checkpoint`: one
  small file each.

Formats: docs/formats. Damage is `CorruptLogError` or `CorruptFileError` with file and position; a
failed fsync is `FsyncError` and ends the node. Not in it: threads (the driver runs flush plans),
the meaning of records.
"""
