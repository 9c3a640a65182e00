"""Clients with transactional ids: what a run with `--transactions` has more.

`workload` draws and starts them; `producer` is an application that crashes, comes back and leaves
zombies behind, `session` one of its processes, `lane` its writes to one partition; `consumer` reads
in both isolations; `mover` reassigns partitions and elects leaders. `requests` are their bodies,
`link` their connections, in the versions of an older or a newer client.

What must hold is in simulator/checks/partitions: `transactions` (D4) and `transaction_log`.
"""
