"""`history`: the whole past of the cluster's metadata as tables, reports and one page.

In it, from the log to the reader:
- read: `input` and `sound_log` (which log, around damage), `damage`, `continuation` (is it the
  archive's), `events` and `sink` (records to typed events);
- fold: `fold`, `partitions`, `overlay`, `packed_lists`, `table_sink` (events to intervals);
- report: `reports` (made while folding), `check` (against snapshots), `figures`, `page`;
- query: `query`, the state at an offset or a time.

Entry: `run`, with `add_arguments(parser)` and `run(config)` as every job has; `schema` has the
tables.
"""
