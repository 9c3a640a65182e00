"""Small text files of offsets, rewritten whole.

In it: `checkpoint_files.OffsetCheckpoint` (recovery points, log starts, high watermarks), the
recovery point of the metadata log with its `flushed_end_file`, those of partitions
(`recovery_points`), `epoch_checkpoint.EpochCache`.
Not in it: when they are written (logs/).
"""
