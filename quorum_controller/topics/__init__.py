"""Topics: creation and deletion, their authorization and quota, placement of replicas.

In it: creation and deletion, new partitions, placement, the mutation quota.
Not in it: changes of existing partitions (partitions/).
"""
