"""Spark jobs over Kafka-format segment files; `core` needs neither Spark nor a JVM.

import pipeline
spark = pipeline.session()            # or any session: pipeline.register(spark)
spark.read.format("kraft-log").load("DIR").show()
"""

from typing import Any


def register(spark: Any) -> Any:
    """Make the format `kraft-log` known to a session; returns the session."""
    from pipeline.sources.kraft_log import KraftLogDataSource  # noqa: PLC0415  # needs pyspark

    spark.dataSource.register(KraftLogDataSource)
    return spark


def session(
    name: str = "kraftline", master: str | None = None, conf: dict[str, str] | None = None
) -> Any:
    """A Spark session with the settings this package is tested with, the format registered.

    Args:
        name: shown in Spark's pages.
        master: `local[N]` or `spark://HOST:PORT`; None is what spark-submit was given, without it
            `local[*]`.
        conf: further settings; they win.

    Raises:
        BadInputError: pyspark or Java 17 is missing, the text says what to install; or the master
            is none, or does not answer.
    """
    from pipeline.spark_session import make_session  # noqa: PLC0415  # needs pyspark

    return register(make_session(name, master, conf or {}))
