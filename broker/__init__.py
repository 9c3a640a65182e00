"""The records of one broker as a value: events and frames in, effects out; a stranger to `kernel`.

Interface:
- `broker.Broker(config, vfs, rng, now=..., clean_log_dirs=..., guards=...)`: `take`, `settle`,
  `next_deadline_ms`, as a kernel, and `apis`, of which the kernel tells clients that they are
  served; its driver owns sockets, threads and the port to the kernel.
- `config.RecordsConfig`: its settings.
- `events`, `effects`: the exchange with the driver, and through it with the kernel of the node.
- `clients.call.Call`: one request, for a handler to answer now or later, once.

Rooms: `clients` (connections, calls, quotas), `apis` (handlers, joined by `handlers`), `replicas`
(logs and partitions of this broker, as images say), `coordinators`, `cleaning`. Which may import
which is a contract in pyproject.toml.
Not in it: sockets and threads (node/), the rules of partitions (replication/), files (storage/).
"""
