"""The process of a node: configuration, sockets, threads, the asyncio driver, the composition root.

`configs` (server.properties to `NodeConfig`, Kafka's keys, KAFKA_* variables), `identity` (log
directories locked and checked), `process` (all parts joined, signals), `driver` (effects to I/O;
events that arrive together are one `Kernel.take`, hence one flush), `flusher`, `worker` (threads),
`connections` (sockets); `records` (a thread of their own: loop, sockets, lanes).
Not in it: decisions; those that both drivers share are in kernel/.
"""
