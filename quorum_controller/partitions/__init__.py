"""Partitions: leaders, in-sync and eligible replicas, reassignment, directories.

In it: `partition_change.change_record`, the only maker of PartitionChangeRecords, and its callers.
Not in it: placement of new partitions (topics/placement).
"""
