"""Records of ours and of Apache Kafka: its tools at our brokers, its folders, its replicas."""

import itertools
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.clusters import kafka_peer
from tests.interop import mixed_run
from tests.interop.mixed_cluster import Software, complaints, mixed_cluster
from tests.interop.quorum import Quorum, running
from tests.interop.record_clients import CODECS, AioRecords, ConfluentRecords, Record
from tests.interop.test_records import create

pytestmark = pytest.mark.jvm
TOOLS = "org.apache.kafka.tools"

# ---- Kafka's tools and its Java clients at three nodes of ours -------------------------------


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    with running(tmp_path_factory.mktemp("ours") / "quorum") as cluster:
        yield cluster


def tool(quorum: Quorum, name: str, *words: str) -> str:
    return kafka_peer.tool(f"{TOOLS}.{name}", "--bootstrap-server", quorum.bootstrap, *words)


def produce_lines(quorum: Quorum, topic: str, codec: str, lines: list[str]) -> None:
    words = "--bootstrap-server", quorum.bootstrap, "--topic", topic, "--compression-codec", codec
    subprocess.run(
        kafka_peer.java(f"{TOOLS}.ConsoleProducer", *words),
        input="".join(f"{line}\n" for line in lines),
        text=True, capture_output=True, timeout=60, check=True,
    )  # fmt: skip


def consume_lines(quorum: Quorum, topic: str, count: int, offset: int = 0) -> list[str]:
    words = "--partition", "0", "--offset", str(offset), "--max-messages", str(count)
    return tool(quorum, "consumer.ConsoleConsumer", "--topic", topic, *words).splitlines()


def perf(quorum: Quorum, topic: str, *words: str) -> str:
    return tool(quorum, "ProducerPerformance", "--topic", topic, "--throughput", "-1", *words)


def test_java_producers_of_every_codec(ours: Quorum) -> None:
    topic = create(ours, 3, min_insync_replicas="2")
    written: list[str] = []
    for codec in CODECS:
        lines = [f"{codec} {number}" for number in range(500)]
        produce_lines(ours, topic, codec or "none", lines)
        written += lines
    assert consume_lines(ours, topic, len(written)) == written
    assert consume_lines(ours, topic, 7, offset=2493) == written[2493:]


def test_java_producers_of_large_and_of_many_records(ours: Quorum) -> None:
    topic = create(ours, 3, segment_bytes="1048576", min_insync_replicas="2")
    large = perf(ours, topic, "--num-records", "10", "--record-size", "1000000")
    small = perf(ours, topic, "--num-records", "20000", "--record-size", "10")
    assert large.startswith("10 records sent") or "\n10 records sent" in large
    assert "20000 records sent" in small
    assert tool(ours, "GetOffsetShell", "--topic", topic) == f"{topic}:0:20010\n"


def test_tools_about_offsets(ours: Quorum, tmp_path: Path) -> None:
    topic = create(ours, 3)
    printed = tool(ours, "VerifiableProducer", "--topic", topic, "--max-messages", "20")
    said = [json.loads(line) for line in printed.splitlines()]
    sent = [entry["offset"] for entry in said if entry["name"] == "producer_send_success"]
    assert sent == list(range(20))
    wanted = {"partitions": [{"topic": topic, "partition": 0, "offset": 12}], "version": 1}
    (tmp_path / "delete.json").write_text(json.dumps(wanted))
    printed = tool(
        ours, "DeleteRecordsCommand", "--offset-json-file", str(tmp_path / "delete.json")
    )
    assert f"partition: {topic}-0\tlow_watermark: 12" in printed
    assert tool(ours, "GetOffsetShell", "--topic", topic, "--time", "earliest") == f"{topic}:0:12\n"
    described = tool(ours, "LogDirsCommand", "--describe", "--topic-list", topic)
    brokers = json.loads(described.splitlines()[-1])["brokers"]
    (size,) = {
        partition["size"]
        for broker in brokers
        for log_dir in broker["logDirs"]
        for partition in log_dir["partitions"]
    }
    assert len(brokers) == 3
    assert size > 0


def test_dump_log_finds_nothing_wrong_in_our_files(ours: Quorum) -> None:
    """Last of the tests on these nodes: they are stopped."""
    topic = create(ours, 3, 2, segment_bytes="1048576")
    for codec in ("none", "zstd"):
        perf(ours, topic, "--num-records", "20000", "--record-size", "200",
             "--command-property", f"compression.type={codec}")  # fmt: skip
    ours.run("down")
    suffixes = "log", "index", "timeindex", "snapshot"
    for node_id in (1, 2, 3):
        data = ours.metadata_log(node_id).parent
        folders = [path for path in data.glob("*-[0-9]*") if path.name != "__cluster_metadata-0"]
        files = {s: [str(p) for folder in folders for p in folder.glob(f"*.{s}")] for s in suffixes}
        assert all(files.values()), f"{node_id}: {files}"
        named = ",".join(itertools.chain.from_iterable(files.values()))
        done = subprocess.run(
            kafka_peer.java(f"{TOOLS}.DumpLogSegments", "--deep-iteration", "--files", named),
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        # to standard error also that a segment which does not start at 0 does not start at 0
        wrong = [line for line in done.stderr.splitlines() if "is followed by" in line]
        assert all("-1 is followed by" in line for line in wrong), done.stderr[-2000:]
        assert "ismatch" not in done.stderr + done.stdout
        assert "isvalid: false" not in done.stdout


# ---- a log directory that goes from one software to the other --------------------------------


def numbered(first: int, count: int) -> list[Record]:
    start_ms = 1_700_000_000_000
    return [
        Record(b"v%d " % i + b"x" * 100, b"k%d" % i, (), start_ms + i)
        for i in range(first, first + count)
    ]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_folder_starts_under_the_other_software(tmp_path: Path, sent: signal.Signals) -> None:
    written: list[Record] = []
    with mixed_cluster(tmp_path, {1: "ours"}) as cluster:
        cluster.create("records", {0: [1]}, segment_bytes="1048576")
        for turn, software in enumerate[Software](("ours", "kafka", "ours")):
            if turn > 0:
                cluster.start(1, software)
            cluster.wait_in_sync("records", 1)
            readers = AioRecords(cluster.bootstrap)
            assert readers.ends("records") == (0, len(written))
            if written:
                found = readers.consume("records", len(written))
                assert [record.value for record in found] == [record.value for record in written]
            for codec in CODECS:
                batch = numbered(len(written), 2000)
                client = ConfluentRecords(cluster.bootstrap)
                client.produce("records", batch, codec=codec, idempotent=True)
                written += batch
            cluster.stop(1, sent)
            if software == "ours":
                assert complaints(cluster.output(1)) == []


# ---- replicas of both in one cluster ---------------------------------------------------------


@pytest.mark.parametrize("kafka", [1, 2])
def test_brokers_of_both_replicate_from_each_other(tmp_path: Path, kafka: int) -> None:
    """Half a minute of what tests/interop/mixed_run.py does for ten; coordinators of both once."""
    by_node: dict[int, Software] = {i: "kafka" if i > 3 - kafka else "ours" for i in (1, 2, 3)}
    found = mixed_run.run(tmp_path, by_node, minutes=0.5, with_applications=kafka == 1)
    assert found["kills"] >= 3
    assert found["records"] >= found["acknowledged"] > 0
    if kafka == 1:
        assert found["copied"] == found["records"]
