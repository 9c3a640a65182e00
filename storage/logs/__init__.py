"""Logs of partitions, made of segments.

In it: `log.Log` of any partition, `unified_log.UnifiedLog` of partitions of records, their loading
and recovery, validation of produced and of fetched batches, flushing (`flush_plan.FlushPlan` runs
on any thread), retention, control batches; all logs of a broker (`log_manager.LogManager`).
Not in it: the files of a log directory beside the logs (log_dir/).
"""
