"""Connections of a node as values: who may connect, what they ask, who is connected to.

Interface:
- `connections.Connections(apis, controller_listeners, limits, clock, effects, serve)`: `opened`,
  `received`, `closed`, `tick`; bytes to requests, answers to bytes in request order, with
  back-pressure.
- `connection_limits`, `connection_rate`: how many, how fast, how long idle.
- `peers.Peers`: one link per (node, channel), opened at the first request, with time-outs.
- `clock`: the time of the running step. `effects`, `events`, `answers`: what passes to and from
  the driver.

Not in it: sockets (node/), what a request means (kernel/serving).
"""
