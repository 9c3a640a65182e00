"""Transactions: the coordinator over a partition of `__transaction_state`.

- `states`: the states with their one table of transitions; `metadata`: a transactional id, the
  image of a partition, and the meaning of its record; `transitions`: every change of a state;
- `decisions`: requests to writes, as pure functions; `listing`: descriptions and lists;
- `markers.Markers`: ends of transactions on their way to leaders, of all partitions;
- `machine.TransactionMachine`: one partition: time-outs, expiry, ends that an election found;
- `coordinator.TransactionCoordinator`: the requests of this broker, by transactional id.

Not in it: frames and ACLs (broker/apis), logs and elections (broker/coordinators), what leaders do
with markers and verification (storage/producers, broker/transactions).
(apache/kafka: core/.../coordinator/transaction)
"""
