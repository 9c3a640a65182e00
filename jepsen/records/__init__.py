"""Workload append-log: producers, consumers and final reads of partitions, and their checker.

`clients.AppendLogClients` does the operations of a run, `checker.check_records` judges them by
sorting, `leadership.Leadership` moves leaders. Records are single requests of Kafka's protocol;
only a producer sends a batch again, as Kafka's producers do.
Not in it: models and search (`jepsen.linearizability`), processes and signals.
"""
