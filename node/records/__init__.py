"""The records of a node with the broker role: its thread, its loop, its sockets and lanes.

Interface: `broker_side` composes them beside the kernel; `data_loop.DataLoop` steps the value
`broker.Broker` and performs its effects, `bridge` joins it to the driver of the kernel.
Not in it: decisions (broker/, replication/), the main thread's sockets (node/connections).
"""
