"""A partition at its leader: appends, ISR and high watermark, fetches, and who waits for them.

`leadership` is the partition, `replica` one of its followers, `alter_partition` what is proposed to
the controller; `purgatory` and `delayed` hold requests until their condition or deadline.
"""
