"""Found by Spark's scan for `pyspark_*` modules: makes the format `kraft-log` known by itself.

An import error here would switch off every format that is found this way, so there is none.
"""

import contextlib

with contextlib.suppress(ImportError):
    from pipeline.sources.kraft_log import KraftLogDataSource as DefaultSource

    __all__ = ["DefaultSource"]
