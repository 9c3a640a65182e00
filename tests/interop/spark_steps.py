"""Batches and streams of Spark's format "kafka", in a process of its own: it needs a class path.

python -m tests.interop.spark_steps BOOTSTRAP FOLDER SOURCE TARGET COUNT

Two topics of three partitions. The last line of the output is what was found, as JSON.
"""

import json
import sys
from typing import Any

import pipeline
from benchmarks.pipeline_kafka_source import connector_jars

Rows = list[list[Any]]


class Steps:
    """One Spark session at a cluster."""

    def __init__(self, bootstrap: str, folder: str) -> None:
        jars = ",".join(str(jar) for jar in sorted(connector_jars().glob("*.jar")))
        conf = {"spark.jars": jars, "spark.sql.shuffle.partitions": "2"}
        self._spark = pipeline.session("kafka", "local[2]", conf)
        self._at = {"kafka.bootstrap.servers": bootstrap}
        self._folder = folder

    def write(self, topic: str, first: int, end: int) -> None:
        """Write numbered records with keys and headers to partition number % 3."""
        rows = self._spark.range(first, end).selectExpr(
            "cast(concat('k', id) as binary) key",
            "cast(concat('v', id) as binary) value",
            "array(named_struct('key', 'h', 'value', cast(cast(id as string) as binary))) headers",
            "cast(id % 3 as int) partition",
        )
        rows.write.format("kafka").options(topic=topic, includeHeaders="true", **self._at).save()

    def read(self, **options: str) -> Rows:
        """Rows of a batch query."""
        return rows_of(self._spark.read.format("kafka").options(**self._at, **options).load())

    def copy(self, source: str, target: str, **options: str) -> int:
        """Continue the stream between the topics with all that is there now; the count of rows."""
        query = (
            self._spark.readStream.format("kafka")
            .options(subscribe=source, startingOffsets="earliest", **self._at, **options)
            .load()
            .selectExpr("key", "value")
            .writeStream.format("kafka")
            .options(topic=target, checkpointLocation=f"{self._folder}/copy", **self._at)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sum(progress["numInputRows"] for progress in query.recentProgress)


def rows_of(frame: Any) -> Rows:
    """[partition, offset, timestamp in ms, key, value, headers] in the order of the log."""
    headers = "headers" if "headers" in frame.columns else "null headers"
    found = frame.selectExpr(
        "partition", "offset", "unix_millis(timestamp) timestamp", "string(key)", "string(value)",
        headers,
    ).orderBy("partition", "offset")  # fmt: skip
    return [
        [*row[:5], [[each["key"], bytes(each["value"]).decode()] for each in row[5] or ()]]
        for row in found.collect()
    ]


def run(bootstrap: str, folder: str, source: str, target: str, count: int) -> dict[str, Any]:
    """Every step on one session: starting Spark costs more than all of them."""
    steps = Steps(bootstrap, folder)
    steps.write(source, 0, count)
    whole = steps.read(subscribe=source, includeHeaders="true")
    since = sorted(row[2] for row in whole)[count // 2]
    return {
        "whole": whole,
        "divided": steps.read(subscribe=source, minPartitions="8"),
        "by pattern": steps.read(subscribePattern=f"{source[:-1]}[{source[-1]}]"),
        "range": steps.read(
            assign=json.dumps({source: [1]}),
            startingOffsets=json.dumps({source: {"1": 5}}),
            endingOffsets=json.dumps({source: {"1": 8}}),
        ),
        "since": since,
        "later": steps.read(
            subscribe=source,
            startingTimestamp=str(since),
            startingOffsetsByTimestampStrategy="latest",  # where a partition has none so late
        ),
        "copied": steps.copy(source, target, maxOffsetsPerTrigger=str(count // 2)),
        "more": steps.write(source, count, count + 30),
        "continued": steps.copy(source, target),
        "nothing new": steps.copy(source, target),
        "target": steps.read(subscribe=target),
    }


if __name__ == "__main__":
    *names, number = sys.argv[1:]
    sys.stdout.write(f"{json.dumps(run(*names, count=int(number)))}\n")
