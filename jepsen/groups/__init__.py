"""Workload group: groups of both protocols that read what producers append, member by member.

`member` is one consumer as a process, `processes.Member` that process seen from the run,
`clients.GroupClients` the groups of a run beside the producers of append-log, `checker` judges what
the members told. `uncommitted` and `patience` are pure: what a member has yet to commit, and how
long the run waits for a group at the end.
Not in it: the producers and what becomes of their records (`jepsen.records`).
"""
