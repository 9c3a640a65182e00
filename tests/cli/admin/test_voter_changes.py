"""`quorum add-controller`, `remove-controller`: what blocks a change, endpoints that are tried."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from cli.admin import quorum
from tests.cli.golden import outputs, verdicts
from tests.cli.quorum_answers import recorded_answer
from tests.cli.recorded_cluster import Reached, RecordedCluster

CONTROLLERS = ["--bootstrap-controller", "127.0.0.1:1"]
VOTER_3 = ["-i", "3", "-d", "Q0NDQ0NDQ0NDQ0NDQ0NDAQ"]
DIRECTORY_4 = "6LUKHoRgwW7BwRcm2z9ZVA"
ADDRESS = "127.0.0.1", 29904
ADD = f"adding controller 4 with directory id {DIRECTORY_4} and endpoints: C://127.0.0.1:29904"
KEYS = (
    "[ReplicaKey(id=1, directoryId=QUFBQUFBQUFBQUFBQUFBAQ), "
    "ReplicaKey(id=2, directoryId=QkJCQkJCQkJCQkJCQkJCAQ), "
    "ReplicaKey(id=3, directoryId=Q0NDQ0NDQ0NDQ0NDQ0NDAQ)]"
)
KEYS_WITH_4 = KEYS.replace("id=3", "id=4")
KEY_4 = f"ReplicaKey(id=4, directoryId={DIRECTORY_4})"
Row = dict[str, Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Properties of controller 4, as it was formatted."""
    (tmp_path / "meta.properties").write_text(
        f"version=1\ncluster.id=x\ndirectory.id={DIRECTORY_4}\nnode.id=4\n"
    )
    path = tmp_path / "server.properties"
    path.write_text(
        f"process.roles=controller\nnode.id=4\nlog.dirs={tmp_path}\n"
        "controller.listener.names=C\nlisteners=C://127.0.0.1:29904\n"
    )
    return path


def described(changed: dict[int, Row] | None = None, **partition: Any) -> Any:
    """The quorum of voters 1 (the leader), 2, 3 and observer 4 that Kafka described, changed."""
    name = "dynamic-4.3.1/quorum-replication-observer4"
    answer = recorded_answer(outputs()[name], verdicts()[name])
    found = answer.topics[0].partitions[0]

    def rows(states: Any) -> Any:
        wanted = changed or {}
        return tuple(dataclasses.replace(s, **wanted.get(s.replica_id, {})) for s in states)

    lists = {"current_voters": rows(found.current_voters), "observers": rows(found.observers)}
    found = dataclasses.replace(found, **{**lists, **partition})
    topic = dataclasses.replace(answer.topics[0], partitions=(found,))
    return dataclasses.replace(answer, topics=(topic,))


def cluster(answer: Any = None, *, kraft_version: int = 1) -> RecordedCluster:
    name = "dynamic-4.3.1/quorum-add-controller-4"
    found = RecordedCluster(
        "dynamic-4.3.1",
        167,
        is_controllers=True,
        kraft_version=kraft_version,
        quorum=described() if answer is None else answer,
        voter_change=recorded_answer(outputs()[name], verdicts()[name]),
    )
    found.reached[ADDRESS] = Reached(4)
    return found


def of_leader(name: str) -> int:
    voters = described().topics[0].partitions[0].current_voters
    return int(getattr(next(s for s in voters if s.replica_id == 1), name))


def ago(ms: int) -> Row:
    """A fetch that long ago, by the clock of the leader."""
    return {"last_fetch_timestamp": of_leader("last_fetch_timestamp") - ms}


NEVER = {"last_fetch_timestamp": -1}
OTHER = "Unexpected broker id, expected 5 or empty string, but received 4"
HOUR_MS = 3_600_000
FEW = (
    "of the {} voters that there would be only {} ({}) fetched in the last 10 s: the change needs "
    "{} to be committed"
)


def blocks(
    capsys: pytest.CaptureFixture[str], asked: RecordedCluster, line: str, *words: str
) -> list[str]:
    """Reasons that block a change, which prints its line and asks for nothing."""
    code = quorum.run([*CONTROLLERS, *words, "--dry-run"], asked.opened)
    out, err = capsys.readouterr()
    assert out == f"DRY RUN of {line}\n"
    found = err.splitlines()
    assert code == (1 if found else 0)
    assert all(type(body).__name__ == "DescribeQuorumRequest" for body in asked.asked)
    assert all(reason.startswith("blocked: ") for reason in found)
    return [reason.removeprefix("blocked: ") for reason in found]


@pytest.mark.parametrize(("answer", "reasons"), [
    (described(), []),
    (described({2: NEVER}), []),
    (described({2: ago(10_000), 3: NEVER}), []),
    (described({2: ago(10_001), 3: NEVER}), [FEW.format(4, 2, "1, 4", 3)]),
    (described({4: {"last_caught_up_timestamp": of_leader("last_fetch_timestamp") - HOUR_MS}}), []),
    (described({4: {"last_caught_up_timestamp": of_leader("last_fetch_timestamp") - HOUR_MS - 1,
                    "log_end_offset": of_leader("log_end_offset") - 7}}),
     [f"{KEY_4} is lagging behind by 7 offsets"]),
    (described({4: {"last_caught_up_timestamp": -1, "log_end_offset": 0}}),
     [f"{KEY_4} is lagging behind by {of_leader('log_end_offset')} offsets"]),
    (described({4: {"replica_directory_id": None}}),
     [f"{KEY_4} does not fetch from the leader: it is started as an observer first"]),
    (described(observers=()),
     [f"{KEY_4} does not fetch from the leader: it is started as an observer first"]),
    (described({2: NEVER}, observers=()),
     [f"{KEY_4} does not fetch from the leader: it is started as an observer first",
      FEW.format(4, 2, "1, 3", 3)]),
    (described({3: {"replica_id": 4}}),
     [f"The voter id for {KEY_4} is already part of the set of voters {KEYS_WITH_4}."]),
    (described(high_watermark=-1),
     ["Request timed out waiting for leader to establish HWM and fence previous voter changes"]),
])  # fmt: skip
def test_what_blocks_an_addition(
    answer: Any, reasons: list[str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--command-config", str(file), "add-controller")
    assert blocks(capsys, cluster(answer), ADD, *words) == reasons


@pytest.mark.parametrize(("answer", "voter", "reasons"), [
    (described(), VOTER_3, []),
    (described({2: ago(10_000)}), VOTER_3, []),
    (described({2: ago(10_001)}), VOTER_3, [FEW.format(2, 1, "1", 2)]),
    (described({3: NEVER}), VOTER_3, []),
    (described({1: NEVER, 2: NEVER, 3: NEVER}), VOTER_3, []),  # told by nobody
    (described({2: NEVER, 3: NEVER}), VOTER_3, [FEW.format(2, 1, "1", 2)]),
    (described(), ["-i", "9", "-d", DIRECTORY_4],
     [f"Cannot remove voter {KEY_4.replace('4,', '9,')} from the set of voters {KEYS}"]),
    (described(), ["-i", "3", "-d", DIRECTORY_4],
     [f"Cannot remove voter {KEY_4.replace('4,', '3,')} from the set of voters {KEYS}"]),
    (described(high_watermark=-1), VOTER_3,
     ["Request timed out waiting for leader to establish HWM and fence previous voter changes"]),
])  # fmt: skip
def test_what_blocks_a_removal(
    answer: Any, voter: list[str], reasons: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"removing  KRaft controller {voter[1]} with directory id {voter[3]}"
    assert blocks(capsys, cluster(answer), line, "remove-controller", *voter) == reasons


def test_the_last_voter_stays(capsys: pytest.CaptureFixture[str]) -> None:
    voters = described().topics[0].partitions[0].current_voters
    only = described(current_voters=voters[:1])
    key = KEYS[1:].partition(")")[0] + ")"
    line = "removing  KRaft controller 1 with directory id QUFBQUFBQUFBQUFBQUFBAQ"
    words = ("remove-controller", "-i", "1", "-d", "QUFBQUFBQUFBQUFBQUFBAQ")
    assert blocks(capsys, cluster(only), line, *words) == [
        f"Cannot remove voter {key} from the set of voters [{key}]"
    ]


def test_at_kraft_version_0_nothing_is_changed(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    static = cluster(kraft_version=0)
    words = ("--command-config", str(file), "add-controller")
    said = "Cluster doesn't support {} voter because the kraft.version feature is 0"
    assert blocks(capsys, static, ADD, *words) == [said.format("adding")]
    line = f"removing  KRaft controller 3 with directory id {VOTER_3[3]}"
    found = blocks(capsys, static, line, "remove-controller", *VOTER_3)
    assert found == [said.format("removing")]
    static.voter_change = None  # the node does not even serve the requests
    for more, what in ((words, "adding"), (("remove-controller", *VOTER_3), "removing")):
        assert quorum.run([*CONTROLLERS, *more], static.opened) == 1
        assert capsys.readouterr() == ("", said.format(what) + "\n")


@pytest.mark.parametrize(("listener", "reached", "said"), [
    ("C://127.0.0.1:29904", None,
     "C://127.0.0.1:29904 does not answer: 127.0.0.1:29904: Connection refused"),
    ("C://127.0.0.1:29904", Reached(4, "other"),
     "C://127.0.0.1:29904 is of cluster other, not of Z29sZGVuLXNoYXJlZC0wMg"),
    ("C://127.0.0.1:29904", Reached(4, is_known=False),
     "C://127.0.0.1:29904 does not answer: Cluster authorization failed."),
    ("C://127.0.0.1:29904", Reached(4, is_controller=False),
     "C://127.0.0.1:29904 is no listener of controllers"),
    ("C://127.0.0.1:29904", Reached(5), f"C://127.0.0.1:29904 is of another node: {OTHER}"),
    ("C://127.0.0.1:29904", Reached(4, kraft_versions=(0, 0)),
     "C://127.0.0.1:29904 supports kraft.version 0 to 0, not 1 as the cluster has it"),
    ("C://127.0.0.1:29904", Reached(4, kraft_versions=(2, 3)),
     "C://127.0.0.1:29904 supports kraft.version 2 to 3, not 1 as the cluster has it"),
    ("C://127.0.0.1:29904", Reached(4, kraft_versions=None),
     "C://127.0.0.1:29904 supports kraft.version 0 to 0, not 1 as the cluster has it"),
    ("C://0.0.0.0:29904", Reached(4),
     "C://0.0.0.0:29904 is no address for other nodes: set advertised.listeners"),
    ("C://[::]:29904", Reached(4),
     "C://[::]:29904 is no address for other nodes: set advertised.listeners"),
])  # fmt: skip
def test_an_endpoint_that_others_could_not_use_is_not_written(
    listener: str,
    reached: Reached | None,
    said: str,
    file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file.write_text(file.read_text().replace("C://127.0.0.1:29904", listener))
    asked = cluster()
    asked.reached = {} if reached is None else {ADDRESS: reached}
    words = [*CONTROLLERS, "--command-config", str(file), "add-controller"]
    assert quorum.run(words, asked.opened) == 1
    note = "(--no-probe: it is added all the same)"
    assert capsys.readouterr() == ("", f"Controller 4 is not added: {said} {note}\n")
    assert not asked.asked
    assert quorum.run([*words, "--dry-run"], asked.opened) == 1
    assert capsys.readouterr().err == f"blocked: {said}\n"
    assert quorum.run([*words, "--no-probe"], asked.opened) == 0
    assert capsys.readouterr().out.startswith("Added controller 4 with directory id")
    assert quorum.run([*words, "--no-probe", "--dry-run"], asked.opened) == 0


def test_every_endpoint_is_tried_and_written(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = file.read_text().replace("names=C", "names=c,D")
    file.write_text(text + "advertised.listeners=D://[::1]:2,C://127.0.0.1:29904\n")
    asked = cluster()
    words = [*CONTROLLERS, "--command-config", str(file), "add-controller"]
    assert quorum.run(words, asked.opened) == 1
    assert "D://[::1]:2 does not answer: ::1:2: Connection refused" in capsys.readouterr().err
    asked.reached["::1", 2] = Reached(4)
    assert quorum.run(words, asked.opened) == 0
    (request,) = asked.asked
    written = [(each.name, each.host, each.port) for each in request.listeners]
    assert written == [("C", "127.0.0.1", 29904), ("D", "::1", 2)]
    assert (request.voter_id, request.ack_when_committed) == (4, True)


def test_a_refusal_of_the_probe_alone_is_no_reason(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A caller who may add voters may still not describe configs: the leader judges then."""
    asked = cluster()
    asked.reached[ADDRESS] = Reached(5, is_described=False)
    words = [*CONTROLLERS, "--command-config", str(file), "add-controller"]
    assert quorum.run(words, asked.opened) == 0
    assert capsys.readouterr().out.startswith("Added")


def test_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*CONTROLLERS, "--command-config", str(file), "add-controller", "--json"]
    assert quorum.run(words, cluster().opened) == 0
    assert json.loads(capsys.readouterr().out) == {"done": f"Added {ADD.removeprefix('adding ')}"}
    asked = cluster(described(observers=()))
    assert quorum.run([*words, "--dry-run"], asked.opened) == 1
    out, err = capsys.readouterr()
    reason = f"{KEY_4} does not fetch from the leader: it is started as an observer first"
    assert json.loads(out) == {"done": f"DRY RUN of {ADD}", "blocked": [reason]}
    assert err == ""
