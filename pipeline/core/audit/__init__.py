"""Audit of log directories: findings with file, position and reason.

In it: `audit` (the steps), `check_*` (one kind of file each), `cleaned_records` (replicas of a
compacted partition), `findings`, `verdicts` on recorded histories.
Not in it: how files are found and opened (reading/).
"""
