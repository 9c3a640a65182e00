"""The process: configuration, sockets, threads, the asyncio driver; the only composition root.

`config` (server.properties to `NodeConfig`, Kafka's keys), `environment` (KAFKA_* variables),
`identity` (folders locked and checked), `process` (all parts joined, signals), `driver` (effects
to I/O; what arrived together is one `Kernel.take`, hence one flush), `flusher`, `worker`
(threads), `connections` (sockets).
Not in it: decisions; what both drivers decide alike is the kernel's.
"""
