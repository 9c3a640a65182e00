"""Registration of the format `kraft-log` by Spark's scan for `pyspark_*` modules.

An import error here would disable every format that is found this way, so none is raised.
"""

import contextlib

with contextlib.suppress(ImportError):
    from pipeline.sources.kraft_log import KraftLogDataSource as DefaultSource

    __all__ = ["DefaultSource"]
