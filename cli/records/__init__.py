"""Commands about records, and the blocking clients below them.

Clients that other programs may use, in `clients`: `topic_metadata` (partitions and their leaders),
`offsets` (ListOffsets), `producer`, `fetcher`. They work on `cli.connect.Api` and know no command
line. Consumer groups are in `cli.groups`.
"""
