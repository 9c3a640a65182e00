"""`kraftline groups` and console consumers of ours on a real node: the lines of Kafka's tool.

The recorded topics and groups are made again, then each command prints what Kafka's printed, but
ids, addresses and widths.
"""

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.groups.golden import outputs
from tests.interop.group_process import Member
from tests.interop.quorum import Quorum, running, wait_until

ROOT = Path(__file__).parents[2]
SECONDS = 30.0
SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "100",
}
ENDS = {"orders": (35, 1, 0), "payments": (14, 10)}
NAMES = itertools.count()
BOTH = ["classic", "consumer"]
ID = re.compile(r"\b[\w-]+-[0-9a-f]{8}-[0-9a-f-]{27}|(?<= )[\w-]{22}(?= )")


class Cluster:
    """One node with the recorded topics."""

    def __init__(self, quorum: Quorum) -> None:
        self.quorum = quorum
        self.address = f"127.0.0.1:{quorum.base_port}"
        config = {"bootstrap.servers": self.address, "log_level": 2}
        topics = [NewTopic(name, len(ends), 1) for name, ends in ENDS.items()]
        admin = AdminClient(config)
        for made in admin.create_topics(topics).values():
            made.result(SECONDS)
        producer = Producer(config)
        for name, ends in ENDS.items():
            for number, end in enumerate(ends):
                for offset in range(end):
                    producer.produce(name, f"{name} {offset}", partition=number)
        assert producer.flush(SECONDS) == 0

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "cli.main", words[0], "--bootstrap-server", self.address,
                *words[1:]]  # fmt: skip

    def ours(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )

    def printed(self, *words: str) -> str:
        done = self.ours(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    words = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    folder = tmp_path_factory.mktemp("groups-tools") / "quorum"
    with running(folder, "--nodes", "1", *words) as quorum:
        yield Cluster(quorum)


class Readers:
    """Console consumers of ours in one group."""

    def __init__(self, cluster: Cluster, protocol: str, count: int) -> None:
        self.cluster, self.name = cluster, f"g-{protocol}-{next(NAMES)}"
        self.processes = []
        for _ in range(count):
            words = ["console-consumer", "--include", "orders|payments", "--group", self.name,
                     "--from-beginning", "--command-property", f"group.protocol={protocol}",
                     "--command-property", "auto.commit.interval.ms=200",
                     "--command-property", "heartbeat.interval.ms=300"]  # fmt: skip
            if protocol == "consumer":
                words = words[:-2]
            self.processes.append(
                subprocess.Popen(cluster.command(*words), cwd=ROOT, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
            )  # fmt: skip

    def described(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.cluster.ours("groups", "--describe", "--group", self.name, *words)

    def wait_read(self, members: int) -> None:
        """Until all is read and committed, by so many members."""

        def is_read() -> bool:
            rows = [line.split() for line in self.described().stdout.splitlines()[2:]]
            read = [row for row in rows if row[3] == row[4]]
            state = self.described("--state").stdout.split()
            return len(read) == 5 and state[-2:] == ["Stable", str(members)]

        wait_until(is_read, SECONDS, lambda: self.described().stdout)

    def stop(self) -> list[str]:
        """Let all leave; the lines that they printed."""
        for process in self.processes:
            process.terminate()
        ends = [process.communicate(timeout=SECONDS) for process in self.processes]
        assert [process.returncode for process in self.processes] == [143] * len(ends)
        return [line for out, _ in ends for line in out.splitlines()]


def without_names(text: str, group: str, client: str = "kraftline-cli") -> list[list[str]]:
    """The words of each line, the same for all ids, clients, addresses."""
    text = ID.sub("ID", text.replace(client, "CLIENT").replace(group, "GROUP"))
    return [re.sub(r"127\.0\.0\.1:\d+", "NODE", line).split() for line in text.splitlines()]


def recorded(name: str, group: str) -> list[list[str]]:
    """The same of what Kafka's tool printed."""
    text = outputs()[f"data-4.3.1/consumer-groups-{name}"].stdout
    text = re.sub(r"(?m) (one|two|kone|ktwo)( |$)", r" kraftline-cli\2", text)
    return without_names(text, group)


WRITTEN = sorted(
    f"{topic} {offset}" for topic, ends in ENDS.items() for end in ends for offset in range(end)
)


def test_a_classic_group_is_described_as_kafkas(cluster: Cluster) -> None:
    readers = Readers(cluster, "classic", 2)
    readers.wait_read(2)
    for words, name in {
        (): "describe-classic",
        ("--offsets", "--verbose"): "describe-classic-offsets-verbose",
        ("--state",): "describe-classic-state",
        ("--state", "--verbose"): "describe-classic-state-verbose",
    }.items():
        found = readers.described(*words)
        assert without_names(found.stdout, readers.name) == recorded(name, "g-classic")
        assert (found.returncode, found.stderr) == (0, "")
    for words, name in {
        ("--members",): "describe-classic-members",
        ("--members", "--verbose"): "describe-classic-members-verbose",
    }.items():
        found = readers.described(*words)
        shown = without_names(found.stdout, readers.name)
        assert sorted(shown) == sorted(recorded(name, "g-classic"))
    refused = cluster.printed("groups", "--delete", "--group", readers.name)
    assert without_names(refused, readers.name) == recorded("delete-in-use", "g-classic")
    words = ["--reset-offsets", "--group", readers.name, "--topic", "orders", "--to-earliest"]
    busy = cluster.printed("groups", *words, "--execute")
    assert without_names(busy, readers.name) == recorded("reset-in-use", "g-classic")
    lines = readers.stop()
    assert sorted(set(lines)) == sorted(set(WRITTEN))
    gone = readers.described()
    assert gone.stderr == f"\nConsumer group '{readers.name}' has no active members.\n"


def test_a_group_of_the_consumer_protocol_is_described_as_kafkas(cluster: Cluster) -> None:
    readers = Readers(cluster, "consumer", 2)
    readers.wait_read(2)
    for words, name in {(): "describe-k848", ("--state",): "describe-k848-state"}.items():
        found = readers.described(*words)
        shown, theirs = without_names(found.stdout, readers.name), recorded(name, "g-k848")
        assert sorted(shown) == sorted(theirs)
    members = readers.described("--members", "--verbose").stdout.splitlines()
    assert members[1].split() == [
        word for word in recorded("describe-k848-members-verbose", "g-k848")[1]
        if word != "GROUP-INSTANCE-ID"
    ]  # fmt: skip
    assert [row.split()[6] == row.split()[8] for row in members[2:]] == [True, True]
    assert sorted(set(readers.stop())) == sorted(set(WRITTEN))
    listed = cluster.printed("groups", "--list", "--type", "consumer").splitlines()
    assert [readers.name, "Consumer"] in [line.split() for line in listed]


@pytest.mark.parametrize("protocol", BOTH)
def test_offsets_are_reset_exported_and_read_from_there(
    cluster: Cluster, protocol: str, tmp_path: Path
) -> None:
    readers = Readers(cluster, protocol, 1)
    readers.wait_read(1)
    assert sorted(readers.stop()) == WRITTEN
    reset = ["groups", "--reset-offsets", "--group", readers.name, "--topic", "orders"]
    found = cluster.printed(*reset, "--to-earliest", "--execute")
    assert without_names(found, readers.name) == recorded("reset-execute-earliest", "g-classic")
    plan = cluster.printed(*reset, "--to-offset", "33", "--export", "--dry-run")
    assert plan == "orders,0,33\norders,1,1\norders,2,0\n\n"
    (tmp_path / "plan.csv").write_text(plan.rstrip("\n") + "\n")
    words = ["--from-file", str(tmp_path / "plan.csv"), "--execute"]
    cluster.printed("groups", "--reset-offsets", "--group", readers.name, *words)
    words = ["--group", readers.name, "--command-property", f"group.protocol={protocol}"]
    again = cluster.ours("console-consumer", "--topic", "orders", "--timeout-ms", "4000", *words)
    assert again.stdout.splitlines() == ["orders 33", "orders 34"]
    deleted = cluster.printed("groups", "--delete", "--group", readers.name)
    assert without_names(deleted, readers.name) == [
        ["Deletion", "of", "requested", "consumer", "groups", "('GROUP')", "was", "successful."]
    ]
    unknown = cluster.printed("groups", "--describe", "--group", readers.name)
    assert without_names(unknown, readers.name) == recorded("describe-unknown", "nobody")


@pytest.mark.parametrize("protocol", BOTH)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_group_is_shared_with_librdkafka(
    cluster: Cluster, protocol: str, *, is_first: bool
) -> None:
    """Whoever of both leads: who came first."""
    name = f"g-mixed-{next(NAMES)}"
    words = ["--consumer"] if protocol == "consumer" else []
    ours = ["console-consumer", "--topic", "orders", "--group", name, "--from-beginning",
            "--command-property", f"group.protocol={protocol}"]  # fmt: skip

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            cluster.command(*ours), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def members() -> list[str]:
        found = cluster.ours("groups", "--describe", "--group", name, "--members").stdout
        return sorted(line.split()[-1] for line in found.splitlines()[2:])

    process = start() if is_first else None
    if is_first:
        wait_until(lambda: members() == ["3"], SECONDS, lambda: str(members()))
    folder = cluster.quorum.folder
    other = Member(folder, "confluent-kafka", cluster.address, name, "orders", *words)
    if process is None:
        wait_until(lambda: members() == ["3"], SECONDS, lambda: str(members()))
        process = start()
    try:
        wait_until(lambda: members() == ["1", "2"], SECONDS, lambda: str(members()))
        other.stop()
        wait_until(lambda: members() == ["3"], SECONDS, lambda: str(members()))
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)
    assert members() == []


@pytest.mark.parametrize("protocol", BOTH)
def test_the_rate_of_consuming_is_measured(cluster: Cluster, protocol: str) -> None:
    group = f"perf-{next(NAMES)}"
    printed = cluster.printed(
        "consumer-perf-test", "--topic", "orders", "--num-records", "36", "--group", group,
        "--command-property", f"group.protocol={protocol}",
    )  # fmt: skip
    _, row = printed.splitlines()
    columns = row.split(", ")
    assert (columns[2], columns[4]) == ("0.0003", "36")
    assert 0 < float(columns[5]) < float(columns[9])
    described = json.loads(cluster.printed("groups", "--describe", "--group", group, "--json"))
    assert described["groups"][0]["state"] == "Empty"
