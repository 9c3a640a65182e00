"""Nodes with both of their values: `Broker` beside `Kernel`, and clients that use records.

`machine` joins them as `node` does: `records_side` steps the broker, `ports` is what passes between
both. `clients` produce and consume; `world` adds them to a `World`, `run` runs one seed of it.
"""
