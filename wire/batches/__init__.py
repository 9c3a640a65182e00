"""Record batches: the unit of the log and of replication, in format version 2 and before it.

`batch` (magic 2) with `compression` and `control_records`; `legacy_batch` (magic 0 and 1).
Not in it: what the records mean, where batches are kept.
"""
