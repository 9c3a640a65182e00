"""Workload txn: transactional producers that append to partitions and read them; at the end all.

`worker.Worker` is one application with librdkafka, `clients.TxnClients` those of a run,
`final_log.Resolving` what a partition holds at the end by its own markers.
Not in it: the checker (`jepsen.cycles`).
"""
