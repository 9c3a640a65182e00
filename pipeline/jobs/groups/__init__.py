"""`groups`: what coordinators' logs say about groups and transactions, as tables and a page.

In it: `run` (the job), `plan` (which copies are read), `tasks` (one partition each, in this
process or Spark's), `page`.
Not in it: what records mean and how lag is known (core/groups).
"""
