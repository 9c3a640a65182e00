"""Handlers of requests about records: a class each, whose `serve` takes a `clients.call.Call`.

A handler answers its call now or later, once. What it is built with are functions and machines of
the broker; the codes of a partition are those that `replication` gives.

Rooms, which do not know each other: `records`, `offsets` (committed ones), `groups`,
`transactions`, `log_dirs`. Beside them what several share: `access`, `named_partitions`, and
`find_coordinator`, which is of groups and of transactions. `broker.handlers` joins them.

Not in it: Produce and Fetch sessions' rules (replication/), the order of answers
(`broker.clients.front`).
"""
