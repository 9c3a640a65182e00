"""Record batches: the unit of the log and of replication, in format version 2 and before it.

`batch` (magic 2) with `compression` and `control_records`; `produced_batch`: those that producers
send; `legacy_batch` (magic 0 and 1); `log_batches`: frames and headers of a log that may have both.
Not in it: what the records mean, where batches are kept.
"""
