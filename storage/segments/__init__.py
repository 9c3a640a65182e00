"""One segment of a log on the disk: its batches, its indexes, its aborted transactions.

In it: `segment.Segment`, the files beside it (`index`, `segment_indexes`, `transaction_index`),
when a new one begins (`rolling`), look-ups by time and of aborted transactions over several, checks
of what is read (`read_check`), slices for a socket (`file_slice`), those that stay open
(`open_segments`).
Not in it: which segments a log has (logs/).
"""
