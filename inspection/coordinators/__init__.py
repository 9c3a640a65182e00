"""Groups and transactions over HTTP: what the coordinators of this node hold.

`group_views`, `transaction_views`: images of partitions to answers, pure. `groups`, `transactions`:
the handlers. `shares`: the nodes that hold the rest, by the leaders in the metadata.
"""
