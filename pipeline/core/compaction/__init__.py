"""Plans of Kafka's cleaner and of retention: which partitions, and the plan of one copy.

In it: `chosen` (which partitions are planned), `partition` (the work on one copy, from its
files), `plan` (the plan from headers and counts).
"""
