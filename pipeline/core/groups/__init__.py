"""Groups and transactions of a cluster from the logs of their coordinators, without Spark.

In it: folds over the records of one partition: `group_log` of `__consumer_offsets` (with
`commits` and `members`), `transaction_log` of `__transaction_state`; over the headers of one data
partition: `data_log`; what comes of both: `lag`, `open_transactions`. `tables` has the columns.
Not in it: the layout of the records (coordinator/records) and what they mean for a group
(coordinator/group), the choice of copies (core/reading), files of tables (jobs/groups).
"""
