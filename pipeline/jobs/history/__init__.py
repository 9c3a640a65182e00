"""`history`: the whole past of the cluster's metadata as tables, reports and one page.

In it: decoding of records to events, the fold of events to intervals, the tables' schema, reports,
queries, the page. Entry: `run`, with `add_arguments(parser)` and `run(config)` as every job has.
"""
