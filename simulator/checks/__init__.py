"""Checks of a run: invariants after every step, liveness after the faults, client histories.

In it: one file for each invariant or family of them, and the mirrors and ledgers that they compare
with, in rooms by what they look at: `raft`, `metadata`, `partitions`, `operations` of clients,
`liveness`.
Not in it: anything that changes the run: a run is the same with and without its checks.
"""
