"""The log cleaner: of each key of a compacted log it keeps the last record.

In it: `cleaner.clean`, a round over the segments of a log as an iterator of events; what it takes
and gives as values (`clean_job`), which go to a cleaner process and back; the parts of a round
(`offset_map`, `transactions`, `batch_filter`, `grouping`, `segment_reader`, `cleaned_segment`).
Not in it: when a log is cleaned, threads, clocks (broker/cleaning), the start after a crash
(logs/log_loading).
"""
