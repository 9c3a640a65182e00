"""The history of a cluster's metadata, asked with Spark.

    kraftline pipeline history --input NODES --output OUT
    python with_spark.py OUT

NODES are log directories of nodes that run, or copies.
"""

import sys

from kraftline.pipeline.jobs.history.query import as_of, tables
from pyspark.sql import SparkSession

from kraftline import pipeline

CHANGES = """
    SELECT partition, `from`, `to`, kind
    FROM leader_changes WHERE topic = :topic ORDER BY offset
"""


def leader_changes(spark: SparkSession, folder: str, topic: str) -> list[tuple[object, ...]]:
    """Each change of a leader of a topic: partition, from whom, to whom, and the kind."""
    tables(spark, folder)  # each is a view by its name
    return [tuple(row) for row in spark.sql(CHANGES, args={"topic": topic}).collect()]


def leader_at(spark: SparkSession, folder: str, topic: str, offset: int) -> int | None:
    """The leader of partition 0 of a topic when the metadata log had this end offset."""
    partitions = as_of(spark, folder, offset=offset)["partitions"]
    row = partitions.where(f"topic = '{topic}' AND partition = 0").select("leader").first()
    return None if row is None else row["leader"]


if __name__ == "__main__":
    session = pipeline.session("history", "local[2]")
    tables(session, sys.argv[1])["leader_changes"].orderBy("offset").show(truncate=False)
