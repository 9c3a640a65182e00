"""Spark jobs over Kafka-format segment files; `core` needs neither Spark nor a JVM.

import pipeline                       # installed: from kraftline import pipeline
spark = pipeline.session()            # or any session: pipeline.register(spark)
spark.read.format("kraft-log").load("DIR").show()
"""

import sys
from typing import Any


def register(spark: Any) -> Any:
    """Register the format `kraft-log` with a session and return the session.

    Workers on this machine run this process' Python if their own lacks the project; where they are
    elsewhere and nobody chose their Python, stderr has the line for the configuration.
    """
    from pipeline.sources.kraft_log import KraftLogDataSource  # noqa: PLC0415  # needs pyspark
    from pipeline.worker_python import use_own_python  # noqa: PLC0415

    advice = use_own_python(spark)  # before the format: it is sent with the Python to run
    if advice is not None:
        sys.stderr.write(f"kraft-log: {advice}\n")
    spark.dataSource.register(KraftLogDataSource)
    return spark


def session(
    name: str = "kraftline", master: str | None = None, conf: dict[str, str] | None = None
) -> Any:
    """Build a Spark session with the settings this package is tested with, the format registered.

    Args:
        name: shown in Spark's pages.
        master: `local[N]` or `spark://HOST:PORT`; None: the master of spark-submit, else
            `local[*]`.
        conf: further settings; they override the defaults.

    Raises:
        BadInputError: pyspark or Java 17 is missing, with the package to install; or the master
            is not valid, or does not answer.
    """
    from pipeline.spark_session import make_session  # noqa: PLC0415  # needs pyspark

    return register(make_session(name, master, conf or {}))
