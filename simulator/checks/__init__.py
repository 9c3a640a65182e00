"""Checks of a run: invariants after every step, liveness after the faults, client histories.

In it: one file for each invariant or family of them, and the mirrors and ledgers they compare with.
Not in it: anything that changes the run: a run is the same with and without its checks.
"""
