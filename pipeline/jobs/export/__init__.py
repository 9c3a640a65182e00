"""`export`: records to Parquet, with a manifest of the files.

`plan`: flags to one value, which both engines run. `tasks`: what a task does with it. `files`: the
Parquet files of a task. `growing`: a folder that `--append` goes on with, each record once. `run`:
the job.
"""
