"""Bytes of batches to Arrow columns.

In it: `batches` (headers of a segment), `sections` and `varints` (fields of records), `codecs`,
`decode` to `rows` of a `schema`, records of Kafka's own topics as JSON.
Not in it: which bytes are read (reading/).
"""
