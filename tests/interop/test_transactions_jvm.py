"""Transactions of ours and Apache Kafka's tools: its producer, its view of ids, its dump."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.clusters import kafka_peer
from coordinator.records.kinds import TRANSACTION_STATE
from coordinator.runtime.shards import partition_for
from tests.interop.hanging import hang, verify
from tests.interop.quorum import Quorum, running, wait_until
from tests.interop.test_transactions import NAME, TOPIC, create, producer_of, read, transfer

pytestmark = pytest.mark.jvm
ROOT = Path(__file__).parents[2]
TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    with running(tmp_path_factory.mktemp("ours") / "quorum") as cluster:
        create(cluster)
        yield cluster


def tool(quorum: Quorum, name: str, *words: str) -> str:
    return kafka_peer.tool(f"{TOOLS}.{name}", "--bootstrap-server", quorum.bootstrap, *words)


def mine(quorum: Quorum, *words: str) -> str:
    """Output of a command of `kraftline transactions`."""
    command = [sys.executable, "-m", "cli.main", "transactions", "--bootstrap-server"]
    done = subprocess.run(
        [*command, quorum.bootstrap, *words],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def same(quorum: Quorum, *words: str) -> str:
    """Output of a command of kafka-transactions, which ours prints too, but for the duration."""
    theirs = tool(quorum, "TransactionsCommand", *words)
    printed = mine(quorum, *words)
    durations = [re.sub(r"(?m)(\t\d+ *\t)\d+ *(?=\t\S+-\d+ *\t$)", r"\1", text)
                 for text in (theirs, printed)]  # fmt: skip
    assert durations[0] == durations[1]
    return theirs


def log_of(quorum: Quorum, topic: str, partition: int) -> Path:
    (found, *_) = sorted(quorum.folder.rglob(f"{topic}-{partition}/00000000000000000000.log"))
    return found


def test_kafkas_tools_list_and_describe_our_transactions(ours: Quorum) -> None:
    producer = producer_of(ours)
    transfer(producer, 1, is_commit=True)
    producer.begin_transaction()
    producer.produce(TOPIC, "2", partition=1)
    producer.flush()
    listed = same(ours, "list")
    assert re.search(rf"{NAME}\s+\d+\s+\d+\s+Ongoing", listed), listed
    words = ("describe", "--transactional-id", NAME)
    described = same(ours, *words)
    assert re.search(rf"{NAME}\s+.*Ongoing.*{TOPIC}-1", described), described
    words = ("describe-producers", "--topic", TOPIC, "--partition", "1")
    assert re.search(r"^\d+\s+\d+", same(ours, *words), re.MULTILINE)
    producer.abort_transaction(30)
    assert read(ours, "read_committed")[1] == [1]


def test_kafkas_dump_tool_reads_our_log_of_transactions(ours: Quorum) -> None:
    partition = partition_for(NAME, 50)
    path = log_of(ours, TRANSACTION_STATE, partition)
    words = ("--deep-iteration", "--transaction-log-decoder", "--files", str(path))
    found = subprocess.run(
        kafka_peer.java(f"{TOOLS}.DumpLogSegments", *words),
        text=True, capture_output=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    assert f'{{"transactionalId":"{NAME}"}}' in found, found
    states = re.findall(r'"transactionStatus":(\d)', found)
    assert "".join(states) == "0124135", "one begun, written to, committed; one aborted"
    assert "isvalid: false" not in found


def test_hanging_transactions_are_found_and_aborted_by_both(ours: Quorum) -> None:
    """Nobody reads behind them, until an administrator aborts them where they are."""
    transfer(producer_of(ours), 2, is_commit=True)
    before = read(ours, "read_committed")
    verify(ours.bootstrap, is_on=False)
    starts = {number: hang(ours.bootstrap, TOPIC, number, 9_000 + number) for number in (0, 2)}
    verify(ours.bootstrap, is_on=True)
    transfer(producer_of(ours), 3, is_commit=True)
    assert read(ours, "read_committed") == [before[0], [*before[1], 3], before[2]]
    found = same(ours, "find-hanging", "--topic", TOPIC)
    rows = re.findall(rf"^{TOPIC}\s+(\d)\s+(900\d)\s+0\s+-1\s+(\d+)\s", found, re.MULTILINE)
    assert rows == [(str(n), str(9_000 + n), str(start)) for n, start in starts.items()], found
    at = {n: ("--topic", TOPIC, "--partition", str(n), "--start-offset", str(start))
          for n, start in starts.items()}  # fmt: skip
    tool(ours, "TransactionsCommand", "abort", *at[0])
    one = same(ours, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "59")
    assert (one.count("\n"), "9002" in one) == (2, True)
    mine(ours, "abort", *at[2])
    assert mine(ours, "find-hanging", "--topic", TOPIC).count("\n") == 1
    assert [numbers[-2:] for numbers in read(ours, "read_committed")] == [[2, 3]] * 3


def test_javas_producer_commits(ours: Quorum) -> None:
    """Its clients have transaction.version 2: a new epoch for each transaction."""
    tool(ours, "FeatureCommand", "upgrade", "--feature", "transaction.version=2")
    words = ("--topic", TOPIC, "--num-records", "300", "--record-size", "10", "--throughput",
             "-1", "--transactional-id", "java", "--transaction-duration-ms", "20",
             "--bootstrap-server", ours.bootstrap)  # fmt: skip
    subprocess.run(
        kafka_peer.java(f"{TOOLS}.ProducerPerformance", *words),
        text=True, capture_output=True, timeout=90, check=True,
    )  # fmt: skip

    def state() -> str:
        return tool(ours, "TransactionsCommand", "describe", "--transactional-id", "java")

    wait_until(lambda: "CompleteCommit" in state(), 20, state)
    epoch = re.search(r"java\s+\d+\s+\d+\s+(\d+)|^\d+\s+java\s+\d+\s+(\d+)", state(), re.MULTILINE)
    assert epoch is not None, state()
