"""Connections of a node as values: clients that connect to it, and peers that it connects to.

Interface:
- `connections.Connections(apis, controller_listeners, limits, clock, effects, serve)`: `opened`,
  `received`, `closed`, `tick`; bytes to requests, answers to bytes in request order, with
  back-pressure.
- `connection_limits`, `connection_rate`: limits on number, rate and idle time of connections.
- `peers.Peers`: one link per (node, channel), opened at the first request, with time-outs.
- `clock`: the time of the running step. `timers`: the deadlines of the node.
- `effects`, `events`: the exchange with the driver.
- `answers`: answers to clients other than response bodies.

Not in it: sockets (node/), the meaning of requests (kernel/serving).
"""
