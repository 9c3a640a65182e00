"""Workload group: groups of both protocols that read what producers append, member by member.

`member` is one consumer as a process, `processes.Member` that process seen from the run,
`clients.GroupClients` the groups of a run beside the producers of append-log, `checker` judges what
the members told.
Not in it: the producers and what becomes of their records (`jepsen.records`).
"""
