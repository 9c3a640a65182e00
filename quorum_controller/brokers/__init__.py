"""Brokers and controllers in the active controller: registration, sessions, sweeps.

In it: registrations and heartbeats, soft state of sessions, work over all partitions of a broker.
Not in it: the broker's own side (kernel/lifecycle).
"""
