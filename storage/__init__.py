"""Kafka's files on disk: the log and the small files around it, through one file system interface.

Interface:
- `vfs.Vfs`: the file system interface; `os_vfs.OsVfs` is that of the operating system (the
  simulated disk: simulator/cluster/memory_vfs).
- `logs.log.Log.open(vfs, directory, config, recovery_point, log_start_offset)`: `append`,
  `append_fetched`, `read(offset, max_bytes, end_offset)`, `truncate_to`,
  `truncate_fully_and_start_at`, `flush_plan() -> FlushPlan` (any thread may `run()` it),
  `flush_done`, `epoch_entries`, `end_offset`, `close`.
- `logs.unified_log.UnifiedLog`: the log of a partition over a `Log` that is opened with
  `syncs_at_open=False`: `append_as_leader`, `append_as_follower`, `slice`, offsets by time, high
  watermark and last stable offset, truncation, deletion from the start.
  `logs.retention.deletable_count` chooses the segments that go.
- `logs.log_manager.LogManager`: all logs of a broker over its log directories.
- `logs.produced_records`: `parse_produced` of what a producer sends.
- `logs.log_validator`: its checks, `validated` or in pieces, and `stamp`.
- `producers.producer_state.ProducerStates`: duplicates, sequences and open transactions of a
  partition; `producers.producer_replay.replay` feeds it from a log.
- `segments.segment.Segment` with its indexes; `checkpoints`: files of offsets.
- `log_dir`: `meta_properties`, `directory_lock`, `partition_directories`, `clean_shutdown_file`,
  `bootstrap_checkpoint`, `quorum_state_file`, `snapshot_files`: one small file each.

Formats: docs/formats. Damage is `CorruptLogError` or `CorruptFileError` with file and position; a
failed fsync is `FsyncError` and ends the node. Not in it: threads (the driver runs flush plans),
the meaning of records.
"""
