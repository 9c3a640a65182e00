"""The log cleaner beside Kafka: a folder that one software cleaned starts under the other."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from benchmarks.clusters import kafka_peer
from tests.interop.mixed_cluster import MixedCluster, Software, complaints, mixed_cluster
from tests.interop.record_clients import CODECS, ConfluentRecords, Record

pytestmark = pytest.mark.jvm
KEYS = 300
Row = tuple[int, bytes | None, bytes | None, int]


def versions(turn: int, count: int = 4000) -> list[Record]:
    """Many versions of few keys, some of them deleted."""
    start_ms = 1_700_000_000_000 + turn * 1000
    return [
        Record(
            None if i % 97 == 0 else b"%d-%d " % (turn, i) + b"x" * 300,
            b"k%d" % (i % KEYS),
            (),
            start_ms + i,
        )
        for i in range(count)
    ]


def rows(bootstrap: str, topic: str) -> list[Row]:
    """Every record that a reader gets: offset, key, value, timestamp."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False}
    consumer = Consumer(settings | {"log_level": 2})  # nothing waits for a coordinator
    place = TopicPartition(topic, 0, OFFSET_BEGINNING)
    _, end = consumer.get_watermark_offsets(place, 30.0)
    consumer.assign([place])
    found: list[Row] = []
    deadline = time.monotonic() + 60
    while end and consumer.position([place])[0].offset < end:
        assert time.monotonic() < deadline, f"{len(found)} records, end {end}"
        found += [
            (each.offset(), each.key(), each.value(), each.timestamp()[1])
            for each in consumer.consume(1000, 0.5)
            if each.error() is None
        ]
    consumer.close()
    return found


def newest(found: list[Row]) -> dict[bytes | None, bytes | None]:
    return {key: value for _, key, value, _ in found}


def wait_for(happened: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def first_dirty(cluster: MixedCluster) -> int:
    path = cluster.data(1) / "cleaner-offset-checkpoint"
    rows = path.read_text().splitlines()[2:] if path.exists() else []
    found = {row.rsplit(" ", 1)[0]: int(row.rsplit(" ", 1)[1]) for row in rows}
    return found.get("records 0", 0)


def dumped(folder: Path) -> str:
    files = ",".join(str(path) for path in sorted(folder.glob("*.log")))
    return kafka_peer.tool(
        "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", files
    )


def test_what_one_software_cleaned_the_other_reads_and_cleans_again(tmp_path: Path) -> None:
    written: dict[bytes | None, bytes | None] = {}
    with mixed_cluster(tmp_path, {1: "ours"}) as cluster:
        cluster.create(
            "records",
            {0: [1]},
            segment_bytes="1048576",
            cleanup_policy="compact",
            min_cleanable_dirty_ratio="0.01",
        )
        before: list[Row] = []
        for turn, software in enumerate[Software](("ours", "kafka", "ours")):
            if turn > 0:
                cluster.start(1, software)
            cluster.wait_in_sync("records", 1)
            assert rows(cluster.bootstrap, "records") == before, f"other records at {software}"
            client, start = ConfluentRecords(cluster.bootstrap), first_dirty(cluster)
            for codec in CODECS:
                batch = versions(turn)
                client.produce("records", batch, codec=codec, idempotent=True)
                written |= {each.key: each.value for each in batch}

            def is_cleaned(start: int = start) -> bool:
                return first_dirty(cluster) > start

            wait_for(is_cleaned, "it is cleaned")
            # Those of the active segment stay: what compresses well is all in there.
            left_max = len(before) + len(CODECS) * 4000 - 2000

            def are_gone(most: int = left_max) -> bool:
                return len(rows(cluster.bootstrap, "records")) < most

            wait_for(are_gone, "records are gone")
            previous = first_dirty(cluster) - 1
            while previous != first_dirty(cluster):  # until nothing more is cleaned
                previous = first_dirty(cluster)
                time.sleep(1.0)
            cluster.stop(1, signal.SIGTERM)
            if software == "ours":
                told = complaints(cluster.output(1))
                # librdkafka looks for the coordinator of its group: one broker is too few for it
                assert [each for each in told if "topic_auto_creation_refused" not in each] == []
                assert "log_cleaned" in cluster.output(1)
            text = dumped(cluster.data(1) / "records-0")
            assert "isvalid: false" not in text
            cluster.start(1, software)
            cluster.wait_in_sync("records", 1)
            before = rows(cluster.bootstrap, "records")
            assert newest(before) == written
            cluster.stop(1, signal.SIGTERM)
