"""The process of a node: configuration, sockets, threads, the asyncio driver, the composition root.

`config` (server.properties to `NodeConfig`, Kafka's keys), `environment` (KAFKA_* variables),
`identity` (log directories locked and checked), `process` (all parts joined, signals), `driver`
(effects to I/O; events that arrive together are one `Kernel.take`, hence one flush), `flusher`,
`worker` (threads), `connections` (sockets).
Not in it: decisions; those that both drivers share are in kernel/.
"""
