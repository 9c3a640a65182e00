"""The producers of a partition: sequences, duplicates, open transactions.

In it: `producer_state.ProducerStates`, its file (`producer_snapshot`) and the files of a partition
(`producer_snapshot_files`), `producer_replay.replay` that feeds it from a log.
Not in it: when a snapshot is written (logs/unified_log).
"""
