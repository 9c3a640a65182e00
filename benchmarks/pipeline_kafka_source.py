"""Comparison of Spark's own Kafka source with the format kraft-log over the same records.

python -m benchmarks.pipeline --kafka-source [--connector DIR] [--megabytes N] [--json]

One real Kafka broker gets records without keys from Kafka's own producer-perf-test (4 partitions,
values of 100 B, batches of up to 16 KiB, not compressed). Spark on local[2] reads them from the
broker with `format("kafka")` and from the broker's own folder with `format("kraft-log")`: the same
session, sink noop, after warming runs, the two in turn. CPU seconds are those of Spark alone
(driver, JVM, Python workers); the broker's are given beside them. The connector is fetched through
Maven; --connector names a folder with its jars instead.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.clusters import kafka_peer, maven
from benchmarks.cpu_meter import CpuMeter, process_ticks
from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import read_table

TOPIC: Final = "records"
PARTITIONS: Final = 4
VALUE_BYTES: Final = 100
BATCH_BYTES: Final = 16 << 10
RECORD_BYTES: Final = VALUE_BYTES + 9  # with its lengths, deltas and attributes
WARMING_RUNS: Final = 3
RUNS: Final = 4
PORT: Final = 19592
CONNECTOR_VERSION: Final = "4.2.0"
"""The last that Maven Central has; the extra's Spark 4.3.0 takes it."""
_CONNECTOR: Final = "spark-sql-kafka-0-10_2.13"
# Spark has its other dependencies
_ARTIFACTS: Final = (
    _CONNECTOR, "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2",
)  # fmt: skip
# name of the read -> columns of Kafka's source, options of kraft-log
READS: Final = {
    "kafka": (None, {"columns": "kafka"}),
    "value": (("value",), {"columns": "value"}),
    "offset,timestamp": (("offset", "timestamp"), {"columns": "offset,timestamp"}),
}


def measure(
    folder: Path, megabytes: int, connector: Path | None = None
) -> dict[str, dict[str, Any]]:
    """Measure one row per source, with figures per read.

    Args:
        folder: an empty folder for the broker.
        megabytes: size of the records with their framing.
        connector: a folder with its jars; None: fetched through Maven.
    """
    import pipeline  # noqa: PLC0415  # needs the extra

    home = connector_jars() if connector is None else connector
    jars = sorted(home.glob("*.jar"))
    (named,) = home.glob(f"{_CONNECTOR}-*.jar")
    count = megabytes * 1_000_000 // RECORD_BYTES
    with one_broker(folder) as broker:
        produce(count)
        data = str(folder / "data")
        conf = {"spark.jars": ",".join(map(str, jars))}
        spark = pipeline.session("benchmark", "local[2]", conf)
        try:
            rows = _in_turn(spark, data, count, broker)
        finally:
            spark.stop()
    rows["kraft-log"] |= _what_was_read(data, count)
    version = named.stem.removeprefix(f"{_CONNECTOR}-")
    rows[f"connector {version}"] = rows.pop("kafka")
    return rows


def connector_jars() -> Path:
    """The folder with the connector, fetched once through Maven."""
    dependency = f"org.apache.spark:{_CONNECTOR}:{CONNECTOR_VERSION}"
    return maven.fetched(f"{_CONNECTOR}-{CONNECTOR_VERSION}", [dependency], only=_ARTIFACTS)


@contextmanager
def one_broker(folder: Path) -> Iterator[int]:
    """Run a Kafka node that is broker and controller, with the topic; yields its process id."""
    controller = f"127.0.0.1:{PORT + 1}"
    lines = {
        "process.roles": "broker,controller", "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{PORT},CONTROLLER://{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / "data"), "offsets.topic.replication.factor": "1",
        "log.segment.bytes": str(64 << 20),
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    properties = folder / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    kafka_peer.format_node(properties, kafka_peer.CLUSTER_ID)
    process = kafka_peer.start_node(properties, folder / "node.log")
    try:
        create_topic()
        yield process.pid
    finally:
        process.kill()
        process.wait()


def create_topic() -> None:
    """Create the topic, retrying until the broker is up."""
    deadline = time.monotonic() + 60
    while True:
        try:
            kafka_peer.tool(
                "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", f"127.0.0.1:{PORT}",
                "--create", "--topic", TOPIC, "--partitions", str(PARTITIONS),
            )  # fmt: skip
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        else:
            return


def produce(count: int) -> None:
    """Produce `count` records by Kafka's producer-perf-test."""
    kafka_peer.tool(
        "org.apache.kafka.tools.ProducerPerformance", "--topic", TOPIC,
        "--num-records", str(count), "--record-size", str(VALUE_BYTES), "--throughput", "-1",
        "--producer-props", f"bootstrap.servers=127.0.0.1:{PORT}", f"batch.size={BATCH_BYTES}",
        "linger.ms=100", "acks=1", "compression.type=none",
    )  # fmt: skip


def _in_turn(spark: Any, data: str, count: int, broker: int) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {"kraft-log": {}, "kafka": {}}
    for read, (columns, options) in READS.items():
        theirs = spark.read.format("kafka").options(
            subscribe=TOPIC, **{"kafka.bootstrap.servers": f"127.0.0.1:{PORT}"}
        ).load()  # fmt: skip
        ours = spark.read.format("kraft-log").options(subscribe=TOPIC, **options).load(data)
        frames = {
            "kraft-log": ours,
            "kafka": theirs if columns is None else theirs.select(*columns),
        }
        assert frames["kafka"].columns == frames["kraft-log"].columns
        used = {name: _Used(broker) for name in frames}
        for run in range(WARMING_RUNS + RUNS):
            for name, frame in frames.items():
                used[name].run(frame.write.format("noop").mode("overwrite").save,
                               counts=run >= WARMING_RUNS)  # fmt: skip
        for name, found in used.items():
            rows[name] |= found.figures(read, count)
    return rows


class _Used:
    """CPU and wall time of the runs of one read."""

    def __init__(self, broker: int) -> None:
        self._broker = broker
        self._cpu = self._wall = self._broker_cpu = 0.0

    def run(self, work: Callable[[], object], *, counts: bool) -> None:
        before = process_ticks()[self._broker]
        with CpuMeter() as meter:
            work()
        broker = (process_ticks()[self._broker] - before) / os.sysconf("SC_CLK_TCK")
        if counts:
            self._wall += meter.wall
            self._cpu += meter.cpu - broker
            self._broker_cpu += broker

    def figures(self, read: str, count: int) -> dict[str, Any]:
        records = count * RUNS / 1e6
        both = self._cpu + self._broker_cpu
        return {
            f"{read} Mrec/s wall": round(records / self._wall, 2),
            f"{read} Mrec/s cpu": round(records / self._cpu, 2),
            f"{read} Mrec/s cpu, with broker": round(records / both, 2),
        }


def _what_was_read(data: str, count: int) -> dict[str, Any]:
    """Figures of the stored records, by batch headers."""
    options = {"path": data, "subscribe": TOPIC, "decode": "metadata", "columns": "count,size"}
    table = read_table(parse_options(options))
    sizes, counts = table.column("size").to_numpy(), table.column("count").to_numpy()
    assert counts.sum() == count, (int(counts.sum()), count)
    return {
        "records": count,
        "MB": round(sizes.sum() / 1e6),
        "bytes per batch": round(sizes.mean()),
        "records per batch": round(counts.mean()),
    }
