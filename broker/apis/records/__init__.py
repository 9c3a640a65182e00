"""Records of partitions: Produce, Fetch, DeleteRecords, and where they lie.

ListOffsets and OffsetForLeaderEpoch (`leader_epochs`) look offsets up, DescribeProducers
(`producers`) tells whose sequences a log keeps. Not in it: offsets that groups commit (`offsets`),
the logs themselves (storage/).
"""
