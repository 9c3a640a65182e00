"""Topics: who may create and delete them, how many, and where their replicas go.

In it: creation and deletion, new partitions, placement, the mutation quota.
Not in it: what happens to a partition later (partitions/).
"""
