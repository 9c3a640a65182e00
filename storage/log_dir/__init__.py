"""A log directory of a node, and the files in it that are no segments.

In it: the partition directories (create, delete, scan), `meta_properties`, `directory_lock`,
`clean_shutdown_file`, `partition_metadata`, `bootstrap_checkpoint`; of the metadata log
`quorum_state_file` and `snapshot_files`.
Not in it: the logs (logs/), the recorded offsets (checkpoints/).
"""
