"""`reassign`: moves between directories, throttles, what is told before a refusal.

What recorded outputs show is in test_golden_outputs.py; lines are those of Kafka 4.3.1's tool.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.admin import reassign
from cli.admin.directory_moves import Directories, move_state
from cli.admin.reassignment_plan import Replica
from cli.command import Output
from cli.connect import ClusterError, newest
from metadata.records import ConfigRecord
from tests.cli.recorded_cluster import INCREMENTAL_ALTER_CONFIGS, RecordedCluster
from tests.cli.records.broker import Time

QUIET, MOVING = 209, 212
"""Offsets of the log of static-4.3.1: nothing is reassigned; orders-0 and orders-1 are."""
ALTER, DESCRIBE = 34, 35
NOT_AVAILABLE, NO_DIRECTORY = 9, 57
WAIT = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed.\n"
)
SAVE = "Save this to use as the --reassignment-json-file option during rollback\n"


class Brokers(RecordedCluster):
    """Brokers with directories /a and /b, whose replicas are where the test says."""

    def __init__(self, offset: int = QUIET, /, **replicas: tuple[str | None, str | None]) -> None:
        super().__init__("static-4.3.1", offset)
        self.replicas = {
            Replica(*name.split("/")[:1], *map(int, name.split("/")[1:])): Directories(*found)
            for name, found in replicas.items()
        }
        self.codes: dict[str, list[int]] = {}
        """Codes of the next answers by replica; 0 when there are none left."""
        self.config_requests: list[tuple[int | None, str, list[tuple[str, int]]]] = []
        self.lost: set[int] = set()
        """Brokers that are gone when they are asked to move replicas."""
        self.altered: list[tuple[int | None, list[tuple[str, str, tuple[int, ...]]]]] = []

    def call(self, api_key: int, body: Any, node: int | None = None) -> Any:
        if api_key == INCREMENTAL_ALTER_CONFIGS:
            self.config_requests += [
                (node, row.resource_name, [(c.name, c.config_operation) for c in row.configs])
                for row in body.resources
            ]
        if api_key == ALTER:
            return self._alter(body, node or 0)
        if api_key == DESCRIBE:
            return self._describe(body, node or 0)
        return super().call(api_key, body, node)

    def _alter(self, body: Any, node: int) -> Any:
        if node in self.lost:
            raise ClusterError(f"node {node} is not known to the cluster")
        new = newest(ALTER, "response")
        asked = [(d.path, t.name, t.partitions) for d in body.dirs for t in d.topics]
        self.altered.append((node, asked))
        rows = []
        for _, topic, numbers in asked:
            for number in numbers:
                codes = self.codes.get(f"{topic}/{number}/{node}", [])
                code = codes.pop(0) if codes else 0
                row = new.AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                rows.append(new.AlterReplicaLogDirTopicResult(topic_name=topic, partitions=(row,)))
        return new.AlterReplicaLogDirsResponse(throttle_time=None, results=tuple(rows))

    def _describe(self, body: Any, node: int) -> Any:
        if node not in self.image.brokers:
            raise ClusterError(f"node {node} is not known to the cluster")
        new = newest(DESCRIBE, "response")
        asked = {(t.topic, n) for t in body.topics for n in t.partitions}
        results = []
        for path in ("/a", "/b"):
            topics = [
                new.DescribeLogDirsTopic(name=replica.topic, partitions=(
                    new.DescribeLogDirsPartition(
                        partition_index=replica.partition, partition_size=1, offset_lag=0,
                        is_future_key=path == found.future),))
                for replica, found in self.replicas.items()
                if path in found and replica.broker == node
                and (replica.topic, replica.partition) in asked
            ]  # fmt: skip
            results.append(
                new.DescribeLogDirsResult(error_code=0, log_dir=path, topics=tuple(topics))
            )
        return new.DescribeLogDirsResponse(throttle_time=None, error_code=0, results=tuple(results))

    def configs(self) -> list[tuple[str, str, str | None]]:
        """(resource, name, value) of the configs that were set or deleted."""
        return [(r.resource_name, r.name, r.value) for r in self.written if type(r) is ConfigRecord]


Perform = Callable[..., Output]


@pytest.fixture
def perform(tmp_path: Path) -> Perform:
    """Perform an action with a plan of rows (topic, partition, replicas, directories)."""

    def done(cluster: Brokers, action: str, rows: Any, *words: str, clock: Any = None) -> Output:
        names = ("topic", "partition", "replicas", "log_dirs")
        plan = [dict(zip(names, row, strict=False)) for row in rows]
        (tmp_path / "plan").write_text(json.dumps({"partitions": plan}))
        options = reassign._parse(["--bootstrap-server", "h:1", f"--{action}", *words,
                                   "--reassignment-json-file", str(tmp_path / "plan")])  # fmt: skip
        return reassign.perform(cluster, options, clock or Time())

    return done


TWO = [
    ("orders", 0, [101, 102], ["/b", "any"]),
    ("payments", 1, [102, 103], ["/b", "/a"]),
]


def test_moves_begin_when_the_replicas_have_come(perform: Perform) -> None:
    cluster, clock = Brokers(), Time()
    cluster.codes["payments/1/102"] = [NOT_AVAILABLE, NOT_AVAILABLE]
    output = perform(cluster, "execute", TWO, clock=clock)
    assert output.exit_code == 0
    assert output.text.partition(SAVE)[2] == (
        "Successfully started partition reassignments for orders-0,payments-1\n"
        "Successfully started moving log directory to /b for replica orders-0 with broker 101 \n"
        "Successfully started moving log directory to /a for replica payments-1 with broker 103 \n"
        "Successfully started moving log directory to /b for replica payments-1 with broker 102 \n"
    )
    again = (102, [("/b", "payments", (1,))])
    assert cluster.altered == [
        (101, [("/b", "orders", (0,))]), again, (103, [("/a", "payments", (1,))]), again, again,
    ]  # fmt: skip
    assert clock.at_ms == 200


def test_moves_of_one_broker_are_one_request(perform: Perform) -> None:
    cluster = Brokers()
    rows = [("orders", 0, [101], ["/a"]), ("orders", 1, [101], ["/b"]),
            ("orders", 2, [101], ["/a"])]  # fmt: skip
    perform(cluster, "execute", rows)
    assert cluster.altered == [(101, [("/a", "orders", (0, 2)), ("/b", "orders", (1,))])]


@pytest.mark.parametrize(("timeout", "tries"), [((), 101), (("--timeout", "150"), 3)])
def test_a_replica_that_does_not_come(
    timeout: tuple[str, ...], tries: int, perform: Perform
) -> None:
    cluster = Brokers()
    cluster.codes = {"orders/0/101": [NOT_AVAILABLE] * 999}
    output = perform(cluster, "execute", TWO[:1], *timeout)
    assert output.exit_code == 1
    assert output.text.endswith(
        "for orders-0\nTimed out before log directory move could be started for: orders-0-101\n"
    )
    assert len(cluster.altered) == tries
    cluster.codes = {"orders/0/101": [NOT_AVAILABLE], "payments/1/102": [NOT_AVAILABLE]}
    output = perform(cluster, "execute", TWO, "--timeout", "0")
    assert "log directory moves could be started for: orders-0-101,payments-1-102\n" in output.text


def test_a_directory_that_does_not_exist(perform: Perform) -> None:
    cluster = Brokers()
    cluster.codes = {"payments/1/102": [NO_DIRECTORY]}
    output = perform(cluster, "execute", TWO)
    assert output.exit_code == 1
    assert output.text.splitlines()[-2:] == [
        "Successfully started moving log directory to /a for replica payments-1 with broker 103 ",
        ("Error: Failed to alter dir for payments-1-102: The user-specified log directory is not "
         "found in the broker config."),
    ]  # fmt: skip


def test_a_broker_that_is_lost_before_its_moves_begin(perform: Perform) -> None:
    cluster = Brokers()
    cluster.lost = {102}
    output = perform(cluster, "execute", TWO)
    assert output.text.splitlines()[-3:] == [
        "Successfully started moving log directory to /b for replica orders-0 with broker 101 ",
        "Successfully started moving log directory to /a for replica payments-1 with broker 103 ",
        "Error: Failed to alter dir for payments-1-102: node 102 is not known to the cluster",
    ]


def test_directories_of_now_are_those_that_are_read(perform: Perform) -> None:
    cluster = Brokers(**{"orders/0/101": ("/b", "/a"), "orders/0/102": (None, "/a")})
    text = perform(cluster, "execute", [("orders", 0, [102])]).text
    assert '"replicas":[101,102],"log_dirs":["/b","any"]' in text


@pytest.mark.parametrize(("current", "future", "text", "is_done", "is_active"), [
    ("/t", None, "Reassignment of replica x-3-7 completed successfully.", True, False),
    ("/a", None, "Partition x-3 on broker 7 is not being moved from log dir /a to /t.", True,
     False),
    ("/a", "/t", "Reassignment of replica x-3-7 is still in progress.", False, True),
    ("/t", "/a", "Partition x-3 on broker 7 is being moved to log dir /a instead of /t.", False,
     True),
    (None, None, ("Partition x-3 is not found in any live log dir on broker 7. There is likely an "
                  "offline log directory on the broker."), False, False),
])  # fmt: skip
def test_states_of_a_move(
    current: str | None, future: str | None, text: str, *, is_done: bool, is_active: bool
) -> None:
    found = move_state(Replica("x", 3, 7), "/t", Directories(current, future))
    assert found == (text, is_done, is_active)


DONE = "Status of partition reassignment:\nReassignment of partition orders-0 is completed.\n"
CLEARED = (
    "Clearing broker-level throttles on brokers 101,102,103\n"
    "Clearing topic-level throttles on topic orders\n"
)


def test_throttles_are_cleared_when_the_moves_are_done(perform: Perform) -> None:
    rows = [("orders", 0, [101, 102], ["/b", "/b"])]
    cluster = Brokers(**{"orders/0/101": ("/a", "/b"), "orders/0/102": ("/b", None)})
    output = perform(cluster, "verify", rows)
    complete = "Reassignment of replica orders-0-102 completed successfully.\n"
    going = "Reassignment of replica orders-0-101 is still in progress.\n"
    assert (output.exit_code, output.text) == (0, f"{DONE}{going}{complete}")
    found = json.loads(perform(cluster, "verify", rows, "--json").text)["moves"]
    assert [(row["broker"], row["log_dir"], row["done"]) for row in found] == [
        (101, "/b", False), (102, "/b", True)]  # fmt: skip
    cluster.replicas[Replica("orders", 0, 101)] = Directories("/b")
    kept = perform(cluster, "verify", rows, "--preserve-throttles").text
    assert CLEARED not in kept
    assert perform(cluster, "verify", rows).text == kept + CLEARED
    assert perform(cluster, "verify", [("orders", 0, [101, 102])]).text == f"{DONE}\n{CLEARED}"


def test_an_unknown_topic_is_verified(perform: Perform) -> None:
    text = perform(Brokers(), "verify", [("nope", 0, [101])], "--preserve-throttles").text
    assert text.splitlines()[1] == (
        "There is no active reassignment of partition nope-0, but replica set is  rather than 101."
    )


def test_throttles_are_told_before_they_are_cleared(perform: Perform) -> None:
    output = perform(Brokers(), "verify", [("nope", 0, [101])])
    assert output.exit_code == 1
    assert output.text.splitlines()[3:] == [
        "Clearing broker-level throttles on brokers 101,102,103",
        "Clearing topic-level throttles on topic nope",
        "Error: The topic 'nope' does not exist.",
    ]


def test_a_broker_that_is_down_is_verified(perform: Perform) -> None:
    output = perform(Brokers(), "verify", [("orders", 0, [101, 109], ["any", "/b"])])
    assert output.exit_code == 1
    assert output.text.splitlines()[2:] == [
        "Error: log directories of broker 109: node 109 is not known to the cluster"
    ]


def test_a_cancelled_move_goes_back(perform: Perform) -> None:
    cluster = Brokers(**{"orders/0/101": ("/a", "/b"), "orders/0/102": ("/b", None)})
    rows = [("orders", 0, [101, 102], ["/b", "/a"])]
    output = perform(cluster, "cancel", rows, "--preserve-throttles")
    assert output.text == (
        "None of the specified partition reassignments are active.\n"
        "Successfully started moving log directory to /a for replica orders-0 with broker 101 \n"
    )
    assert cluster.altered == [(101, [("/a", "orders", (0,))])]
    found = json.loads(perform(cluster, "cancel", rows, "--json").text)
    assert found["moves"] == [{"topic": "orders", "partition": 0, "broker": 101, "log_dir": "/a"}]
    cluster.replicas.clear()
    output = perform(cluster, "cancel", rows)
    assert output.text.endswith(f"None of the specified partition moves are active.{CLEARED}")


RATES = ["leader.replication.throttled.rate", "follower.replication.throttled.rate"]
REPLICAS = ["leader.replication.throttled.replicas", "follower.replication.throttled.replicas"]
ALTER_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def test_throttles_are_deleted_at_each_live_broker(perform: Perform) -> None:
    cluster = Brokers()
    text = perform(cluster, "verify", [("orders", 0, [101, 109])]).text
    assert "throttles on brokers 101,102,103,109\n" in text
    deleted = [(name, 1) for name in (*RATES, ALTER_RATE)]
    assert cluster.config_requests == [
        *((broker, str(broker), deleted) for broker in (101, 102, 103)),
        (None, "orders", [(name, 1) for name in REPLICAS]),
    ]
    cluster = Brokers()
    cluster.is_controllers = True
    perform(cluster, "cancel", [("orders", 0, [101])])
    assert {node for node, _, _ in cluster.config_requests} == {None}


def test_throttles_of_both_kinds(perform: Perform) -> None:
    cluster = Brokers()
    rows = [("orders", 0, [101, 103], ["/a", "any"]), ("orders", 3, [103, 101], ["any", "/b"])]
    output = perform(
        cluster, "execute", rows, "--throttle", "7", "--replica-alter-log-dirs-throttle", "9"
    )
    assert output.text.partition(SAVE)[2].startswith(
        f"{WAIT}The inter-broker throttle limit was set to 7 B/s\n"
        "The replica-alter-dir throttle limit was set to 9 B/s\nSuccessfully"
    )
    assert cluster.configs() == [
        ("orders", REPLICAS[0], "0:101,0:102,3:101,3:103"), ("orders", REPLICAS[1], "0:103"),
        *((broker, name, "7") for broker in ("101", "102", "103") for name in RATES),
        ("101", ALTER_RATE, "9"),
    ]  # fmt: skip


def test_a_throttle_of_one_kind(perform: Perform) -> None:
    cluster = Brokers()
    words = ("--replica-alter-log-dirs-throttle", "9")
    output = perform(cluster, "execute", [("orders", 0, [101, 102], ["any", "/b"])], *words)
    assert f"{SAVE}{WAIT}The replica-alter-dir throttle limit was set to 9 B/s\n" in output.text
    assert cluster.configs() == [("102", ALTER_RATE, "9")]
    plain = perform(Brokers(), "execute", [("orders", 0, [101, 102])])
    assert f"{SAVE}Successfully" in plain.text


def test_throttles_count_the_moves_that_are_going_on(perform: Perform) -> None:
    cluster = Brokers(MOVING)
    rows = [("orders", 0, [103, 101])]
    refused = perform(cluster, "execute", rows)
    assert (refused.exit_code, refused.text[:58]) == (
        1, "Cannot execute because there is an existing partition assi")  # fmt: skip
    perform(cluster, "execute", rows, "--additional", "--throttle", "7")
    assert cluster.configs()[:2] == [
        ("orders", REPLICAS[0], "0:101,0:102,1:102,1:103"),
        ("orders", REPLICAS[1], "0:103,1:101"),
    ]


def test_plans_that_the_cluster_cannot_have(perform: Perform) -> None:
    for rows, text in (
        ([("nope", 0, [101])], "Error: Topic nope not found.\n"),
        ([("orders", 0, [101]), ("orders", 6, [101]), ("orders", 7, [101])],
         "Error: Unable to find partition: orders-6, orders-7\n"),
        ([("nope", 0, [109])], "Error: Unknown broker id 109\n"),
    ):  # fmt: skip
        assert perform(Brokers(), "execute", rows) == Output(text, exit_code=1)
    with pytest.raises(ClusterError, match="Unknown broker id 109"):
        perform(Brokers(), "execute", [("nope", 0, [109])], "--json")


def test_refusals_of_the_controller_are_told_by_partition(
    perform: Perform, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [("orders", 0, [103, 101]), ("orders", 1, [101, 102])]
    for count, many in ((1, ""), (2, "s")):
        told = [f"orders-{number}: no" for number in range(count)]
        monkeypatch.setattr(reassign, "_alter", lambda *_, told=told, **__: told)
        lines = "".join(f"{line}\n" for line in told)
        cancelled = perform(Brokers(MOVING), "cancel", rows)
        assert cancelled == Output(
            f"Error cancelling partition reassignment{many} for:\n{lines}", exit_code=1
        )
        started = perform(Brokers(), "execute", rows)
        assert started.text.endswith(f"{SAVE}Error reassigning partition(s):\n{lines}")


def test_a_partition_on_its_way_keeps_its_throttles(perform: Perform) -> None:
    rows = [("orders", 0, [103, 101])]
    output = perform(Brokers(MOVING), "verify", rows)
    assert output.text.splitlines()[1:] == [
        "Reassignment of partition orders-0 is still in progress.",
        "",
    ]
    (found,) = json.loads(perform(Brokers(MOVING), "verify", rows, "--json").text)["partitions"]
    assert found["done"] is False
    started = perform(Brokers(), "execute", rows).text
    assert started.endswith("Successfully started partition reassignment for orders-0\n")
