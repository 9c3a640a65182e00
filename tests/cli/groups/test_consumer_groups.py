"""`kraftline groups` and `all-groups` beyond the recorded outputs: refusals, JSON, repetitions."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.groups import all_groups, consumer_groups
from cli.groups.options import parse
from cli.groups.tables import assignment
from cli.records.clients.topic_metadata import Partition
from tests.cli.groups.group_broker import (
    CONSUMER_GROUP_DESCRIBE,
    FIND_COORDINATOR,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    Group,
    GroupBroker,
    Member,
)
from tests.cli.records.broker import LIST_OFFSETS, Log
from tests.cli.records.golden import run_command

S = ["--bootstrap-server", "h:1"]
FAILED = "\nError: Executing consumer group command failed due to "


def broker() -> GroupBroker:
    """A topic of ten records in three partitions; the first record of each is gone."""
    logs = [Log(start=1) for _ in range(3)]
    for log in logs:
        for _ in range(10):
            log.append(b"x")
    groups = [
        Group("idle", offsets={("t", 0): 4, ("t", 1): 10}),
        Group("busy", "Stable", "Consumer", assignor="uniform", epoch=5, members=[
            Member("one", {"t": (0,)}, "c1", None, 5, {"t": (0, 1)}, kind=1),
            Member("two", {"t": (1, 2)}, "c2", None, 4, {}, kind=0),
        ], offsets={("t", 0): (4, 2), ("t", 1): -1}),
        Group("connect", "Stable", protocol_type="connect"),
    ]  # fmt: skip
    return GroupBroker(groups, t=logs, u=1)


def ran(made: GroupBroker, *words: str) -> tuple[Any, str, str]:
    return run_command(consumer_groups.run, [*S, *words], made)


def told(made: GroupBroker, *words: str) -> Any:
    code, out, err = ran(made, *words, "--json")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    return json.loads(out)


def test_members_of_both_protocols_show_who_is_upgraded() -> None:
    code, out, err = ran(broker(), "--describe", "--group", "busy", "--members", "--verbose")
    assert (code, err) == (0, "")
    head, one, two = out.splitlines()[1:]
    assert head.split()[-3:] == ["TARGET-EPOCH", "TARGET-ASSIGNMENT", "UPGRADED"]
    assert one.split()[4:] == ["1", "5", "t:0", "5", "t:0,1", "true"]
    assert two.split()[4:] == ["2", "4", "t:1,2", "5", "-", "false"]


def test_rows_of_the_largest_member_come_first() -> None:
    _, out, _ = ran(broker(), "--describe", "--group", "busy", "--verbose")
    rows = [line.split() for line in out.splitlines()[2:]]
    assert [row[2:7] for row in rows] == [
        ["1", "-", "-1", "10", "-"],
        ["2", "-", "-", "10", "-"],
        ["0", "2", "4", "10", "6"],
    ]


def test_json_of_descriptions() -> None:
    (found,) = told(broker(), "--describe", "--group", "busy")["groups"]
    node = {"id": 1, "host": "127.0.0.1", "port": 24191}
    common = {"group": "busy", "state": "Stable", "coordinator": node, "assignor": "uniform",
              "epoch": 5, "target_epoch": 5, "member_count": 2}  # fmt: skip
    offsets = found.pop("offsets")
    assert found == common
    assert offsets[2] == {"topic": "t", "partition": 0, "offset": 4, "leader_epoch": 2,
                          "end_offset": 10, "lag": 6, "member": "one"}  # fmt: skip
    (found,) = told(broker(), "--describe", "--group", "busy", "--members")["groups"]
    members = found.pop("members")
    assert found == common
    assert members[0] == {"id": "one", "instance_id": None, "host": "/127.0.0.1", "epoch": 5,
                          "client_id": "c1", "assigned": ["t:0"],
                          "target": ["t:0", "t:1"]}  # fmt: skip
    assert told(broker(), "--describe", "--group", "busy", "--state")["groups"] == [common]
    (idle,) = told(broker(), "--describe", "--group", "idle", "--state")["groups"]
    assert (idle["assignor"], idle["epoch"], idle["target_epoch"]) == (None, None, None)


def test_json_of_lists() -> None:
    rows = [{"group": "busy", "type": "Consumer", "state": "Stable"},
            {"group": "idle", "type": "Classic", "state": "Empty"}]  # fmt: skip
    assert told(broker(), "--list") == {"groups": rows, "errors": []}
    code, out, _ = run_command(all_groups.run, [*S, "--list", "--json"], broker())
    assert code == 0
    assert json.loads(out)["groups"][1] == {
        "group": "connect", "type": "Classic", "protocol": "connect", "state": "Stable"
    }  # fmt: skip


def test_json_of_deletions() -> None:
    made = broker()
    found = told(made, "--delete", "--group", "idle", "--group", "busy", "--group", "idle")
    not_empty = "org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty."
    assert found == {"deleted": ["idle"], "failed": {"busy": not_empty}, "errors": []}
    assert "idle" not in made.groups
    found = told(broker(), "--delete-offsets", "--group", "idle", "--topic", "t:0", "--topic", "no")
    unknown = "This server does not host this topic-partition."
    assert [row["error"] and row["error"].partition(": ")[2] for row in found["offsets"]] == [
        unknown, None
    ]  # fmt: skip
    assert [row["partition"] for row in found["offsets"]] == [None, 0]


def test_json_of_resets_and_what_is_committed() -> None:
    made = broker()
    words = ["--reset-offsets", "--topic", "t", "--to-earliest"]
    found = told(made, *words, "--group", "idle", "--execute")
    rows = [{"group": "idle", "topic": "t", "partition": n, "offset": 1} for n in range(3)]
    assert found == {"is_executed": True, "offsets": rows, "errors": []}
    assert made.groups["idle"].offsets == {("t", n): (1, -1) for n in range(3)}
    code, out, _ = ran(broker(), *words, "--group", "busy", "--json")
    assert code == 0
    assert "but the current state is Stable." in json.loads(out)["errors"][0]


def test_json_of_a_refusal_is_one_line_and_exit_code_1() -> None:
    code, out, err = ran(broker(), "--describe", "--group", "nobody", "--json")
    name = "org.apache.kafka.common.errors.GroupIdNotFoundException"
    assert (code, out, err) == (1, "", f"{name}: Group nobody not found.\n")


def test_a_regular_expression_asks_no_broker() -> None:
    made = broker()
    run = run_command(consumer_groups.run, ["--validate-regex", "a(", "--json"], made)
    assert run == (0, '{"regex":"a(","is_valid":false,"errors":[]}\n', "")
    assert made.asked == []


def reset(made: GroupBroker, *words: str) -> list[tuple[int, int]]:
    found = told(made, "--reset-offsets", "--group", "idle", "--dry-run", *words)
    return [(row["partition"], row["offset"]) for row in found["offsets"]]


def test_offsets_stay_within_the_log() -> None:
    t = ["--topic", "t:0"]
    assert [reset(broker(), *t, "--to-offset", text) for text in ("0", "1", "10", "11", "-5")] == [
        [(0, 1)], [(0, 1)], [(0, 10)], [(0, 10)], [(0, 1)]
    ]  # fmt: skip
    assert [reset(broker(), *t, "--shift-by", n) for n in ("-3", "-4", "6", "7", "0")] == [
        [(0, 1)], [(0, 1)], [(0, 10)], [(0, 10)], [(0, 4)]
    ]  # fmt: skip


def test_only_what_is_moved_is_warned_of() -> None:
    words = ["--reset-offsets", "--group", "idle", "--dry-run", "--topic", "t:0", "--to-offset"]
    assert [ran(broker(), *words, text)[2] for text in ("0", "1", "10", "11")] == [
        ("New offset (0) is lower than earliest offset for topic partition t-0. "
        "Value will be set to 1\n"), "", "",
        ("New offset (11) is higher than latest offset for topic partition t-0. "
        "Value will be set to 10\n"),
    ]  # fmt: skip


def test_where_nothing_is_committed_the_current_offset_is_the_end() -> None:
    assert reset(broker(), "--topic", "t", "--to-current") == [(0, 4), (1, 10), (2, 10)]
    assert reset(broker(), "--all-topics", "--to-earliest") == [(0, 1), (1, 1)]


def test_times() -> None:
    made = broker()
    at = "1970-01-01T00:00:01.007"  # records are of 1000 ms on
    assert reset(made, "--topic", "t:0", "--to-datetime", at) == [(0, 7)]
    assert reset(made, "--topic", "t:0", "--by-duration", "P40000D") == [(0, 0)]
    (timestamp,) = {p.timestamp for key, body in made.asked[-4:] if key == LIST_OFFSETS
                    for topic in body.topics for p in topic.partitions}  # fmt: skip
    assert timestamp == 0
    made.clock.at_ms = -made.clock.wall_ms() + 2000  # now is 2 s after 1970
    assert reset(made, "--topic", "t:0", "--by-duration", "PT0.995S") == [(0, 5)]


def test_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p").write_text("other,t,0,3\n")
    code, out, _ = ran(broker(), "--reset-offsets", "--group", "idle", "--from-file", "p",
                       "--dry-run")  # fmt: skip
    assert code == 0
    assert out.startswith("\nError: No reset plan for group idle found.\n")
    Path("p").write_text("t,0,3\nt,9,1\n")
    _, out, _ = ran(broker(), "--reset-offsets", "--group", "idle", "--from-file", "p", "--dry-run")
    assert out == f'{FAILED}The partitions "t-9" do not exist\n'


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--topic", "no:0"], ("java.util.concurrent.ExecutionException: org.apache.kafka.common."
      "errors.UnknownTopicOrPartitionException: This server does not host this topic-partition.")),
     (["--topic", "u"], 'The partitions "u-0" have no leader')],
)  # fmt: skip
def test_partitions_that_cannot_be_reset(words: list[str], said: str) -> None:
    made = broker()
    made.topics["u"].logs[0].leader = -1
    code, out, err = ran(made, "--reset-offsets", "--group", "idle", "--to-latest", "--dry-run",
                         *words)  # fmt: skip
    assert (code, out, err) == (0, f"{FAILED}{said}\n", "")


def test_a_streams_group_is_not_reset() -> None:
    made = broker()
    made.groups["app"] = Group("app", "Empty", "Streams", "streams")
    words = ["--reset-offsets", "--group", "app", "--topic", "t", "--to-latest", "--execute"]
    _, out, _ = ran(made, *words)
    assert out.startswith("\nError: Group 'app' is a streams group. Use kafka-streams-groups.sh")
    assert made.groups["app"].offsets == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--reset-offsets", "--group", "idle", "--topic", "t", "--shift-by", "1", "--dry-run"],
      "Cannot shift offset for partition t-2 since there is no current committed offset"),
     (["--reset-offsets", "--group", "idle", "--topic", "t:0:1", "--to-latest", "--dry-run"],
      "Invalid topic arg 't:0:1', expected topic name and partitions"),
     (["--delete-offsets", "--group", "idle", "--topic", "t:"], "Invalid topic arg 't:', expected"),
     (["--delete-offsets", "--group", "idle", "--topic", "t:0,x"],
      "Invalid partition 'x' specified in topic arg 't:0,x''"),
     (["--delete-offsets", "--group", "idle", "--topic", f"t:{2**31}"],
      f"Invalid partition '{2**31}' specified"),
     (["--delete-offsets", "--group", "idle", "--topic", "t:" + "9" * 5000],
      "Invalid partition '9999")],
)  # fmt: skip
def test_topics_that_are_refused(words: list[str], said: str) -> None:
    code, out, err = ran(broker(), *words)
    assert (code, out) == (1, "")
    assert err.startswith(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--list", "--members"], "Option(s) [members] are unavailable given other options"),
     (["--delete", "--group", "g", "--state"], "Option(s) [state] are unavailable"),
     (["--describe", "--group", "g", "--type"], "Option(s) [type] are unavailable"),
     (["--list", "--offsets", "--verbose"], "Option(s) [offsets, verbose] are unavailable"),
     (["--describe", "--group", "g", "--state", "Stable"],
      "Option [describe] does not take a value for [state]"),
     (["--delete", "--group", "g", "--topic", "t"],
      "The consumer does not support topic-specific offset deletion from a consumer group."),
     (["--delete-offsets", "--topic", "t"], "Option [delete-offsets] takes the following options"),
     (["--reset-offsets", "--execute"], "Option [reset-offsets] takes one of these options"),
     (["--describe", "--group", "g", "--all-groups"],
      "Option \"[group]\" can't be used with option \"[all-groups]\""),
     (["--list", "--topic", "t"], "Option \"[topic]\" can't be used with option \"[list]\""),
     (["--describe", "--all-groups", "--topic", "t"],
      "Option \"[topic]\" can't be used with option \"[describe]\""),
     (["--delete", "--all-groups", "--list"], "Command must include exactly one action: --list"),
     (["--list", "--timeout", "-1"], "argument --timeout: '-1' is not a whole number"),
     (["--list", "--state", "stable,"], "Invalid state list 'stable,'")],
)  # fmt: skip
def test_command_lines_that_are_refused(words: list[str], said: str) -> None:
    made = broker()
    code, out, err = ran(made, *words)
    assert (code, out) == (1, "")
    assert err.startswith(said)
    assert made.asked == []


def test_a_command_line_without_anything() -> None:
    for run, said in (
        (consumer_groups.run, "This tool helps to list all consumer groups"),
        (all_groups.run, "This tool helps to list groups of all types."),
    ):
        code, _, err = run_command(run, [], broker())
        assert code == 1
        assert err.startswith(said)
        code, _, err = run_command(run, ["--list"], broker())
        assert (code, err.splitlines()[0]) == (1, 'Missing required argument "[bootstrap-server]"')


def test_a_deletion_of_offsets_is_of_one_group() -> None:
    _, out, _ = ran(broker(), "--delete-offsets", "--group", "a", "--group", "b", "--topic", "t")
    said = "Found multiple arguments for option group, but you asked for only one\n"
    assert out == FAILED + said


def test_refusals_of_the_coordinator() -> None:
    made = broker()
    made.errors = [(FIND_COORDINATOR, 30)]
    _, out, _ = ran(made, "--delete", "--group", "idle")
    assert "GroupAuthorizationException: Group authorization failed." in out
    for api_key in (CONSUMER_GROUP_DESCRIBE, OFFSET_FETCH):
        made.errors = [(api_key, 30)]
        _, out, _ = ran(made, "--describe", "--group", "idle")
        assert out.startswith(f"{FAILED}org.apache.kafka.common.errors.GroupAuthorizationExc")
    made.errors = [(LIST_GROUPS, 14)]
    _, out, _ = ran(made, "--list")
    assert out == f"{FAILED}The coordinator is loading and hence can't process requests.\n"
    made.errors = [(OFFSET_DELETE, 24)]
    _, out, _ = ran(made, "--delete-offsets", "--group", "idle", "--topic", "t:0")
    assert out.startswith("\nError: The group id is invalid.\n\nTOPIC")
    made.errors = [(OFFSET_DELETE, 42)]
    _, out, _ = ran(made, "--delete-offsets", "--group", "idle", "--topic", "t:0")
    assert out.startswith("\nError: Encountered some unknown error: org.apache.kafka.common.err")


def test_a_commit_that_is_refused_names_the_partitions() -> None:
    made = broker()
    made.errors = [(OFFSET_COMMIT, 0), (OFFSET_COMMIT, 12), (OFFSET_COMMIT, 12)]
    words = ["--reset-offsets", "--group", "idle", "--topic", "t", "--to-latest", "--execute"]
    _, out, _ = ran(made, *words)
    name = "org.apache.kafka.common.errors.OffsetMetadataTooLarge"
    said = "Failed altering group offsets for the following partitions: [t-1, t-2]"
    assert out == f"{FAILED}{name}: {said}\n"


def test_groups_of_other_kinds_are_no_consumer_groups() -> None:
    _, out, _ = ran(broker(), "--describe", "--group", "connect")
    said = "GroupId connect is not a consumer group (connect).\n"
    assert out == f"{FAILED}java.lang.IllegalArgumentException: {said}"


def test_an_older_broker_has_classic_groups_alone_and_knows_names() -> None:
    made = broker()
    del made.answers[CONSUMER_GROUP_DESCRIBE]
    _, out, _ = ran(made, "--describe", "--group", "idle", "--state")
    assert out.splitlines()[2].split()[-2:] == ["Empty", "0"]
    made.versions[OFFSET_FETCH] = made.versions[OFFSET_COMMIT] = 9
    _, out, _ = ran(made, "--describe", "--group", "idle")
    said = "broker 1 does not know OffsetFetch 10, which Kafka has from 4.1 on\n"
    assert out == FAILED + said
    words = ["--reset-offsets", "--group", "idle", "--topic", "t", "--to-latest", "--execute"]
    assert ran(made, *words)[1] == FAILED + said.replace("Fetch", "Commit")


def test_states_that_are_no_state() -> None:
    made = broker()
    made.groups["idle"].state = "Sleeping"
    _, out, _ = ran(made, "--describe", "--group", "idle")
    assert out == f"{FAILED}Expected a valid consumer group state, but found 'Unknown'.\n"
    made.groups["idle"].state = "Dead"
    _, out, err = ran(made, "--describe", "--group", "idle", "--state")
    assert (out, err) == ("\nError: Consumer group 'idle' does not exist.\n", "")


def test_an_assignment_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made = broker()
    made.groups["idle"].members = [Member("m", {"t": (0,)})]
    name = "tests.cli.groups.group_broker.assignment_bytes"
    monkeypatch.setattr(name, lambda *_: b"\0\3\0\0\0\1")
    _, out, _ = ran(made, "--describe", "--group", "idle")
    assert out.startswith(f"{FAILED}Group idle: an assignment cannot be read: ")


def test_a_partition_without_a_leader_has_no_end() -> None:
    made = broker()
    made.topics["t"].logs[0].leader = -1
    _, out, _ = ran(made, "--describe", "--group", "idle")
    rows = [line.split()[2:6] for line in out.splitlines()[2:]]
    assert rows == [["0", "4", "-", "-"], ["1", "10", "10", "0"]]


def test_a_group_without_offsets_has_no_table() -> None:
    made = broker()
    made.groups["idle"].offsets = {}
    code, out, err = ran(made, "--describe", "--group", "idle")
    assert (code, out, err) == (0, "", "\nConsumer group 'idle' has no active members.\n")


def test_long_names_widen_their_columns() -> None:
    made = broker()
    name = "g" * 20
    made.groups = {name: Group(name, offsets={("t", 0): 1})}
    head, row = ran(made, "--describe", "--group", name)[1].splitlines()[1:]
    assert head.index("TOPIC") == row.index("t ") == 21
    head, row = ran(made, "--list", "--state")[1].splitlines()
    assert head.index("STATE") == row.index("Empty") == 31
    head, row = ran(made, "--describe", "--group", name, "--state")[1].splitlines()[1:]
    assert head.index("COORD") == row.index("127.0.0.1") == 21
    _, out, _ = run_command(all_groups.run, [*S, "--list"], made)
    assert [line.index(word) for line, word in zip(out.splitlines(), ("TYPE", "Classic"),
                                                   strict=True)] == [21, 21]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "shown"),
    [(["--consumer"], "busy idle"), (["--group-type", "CONSUMER"], "busy"),
     (["--protocol", "connect"], "connect"), (["--group-type", "classic"], "connect idle"),
     (["--group-type", "classic", "--protocol", "consumer"], "idle"), (["--share"], ""),
     (["--streams"], "")],
)  # fmt: skip
def test_filters_of_all_groups(words: list[str], shown: str) -> None:
    code, out, _ = run_command(all_groups.run, [*S, "--list", *words], broker())
    assert code == 0
    assert " ".join(line.split()[0] for line in out.splitlines()[1:]) == shown


def test_a_refusal_of_all_groups() -> None:
    made = broker()
    made.errors = [(LIST_GROUPS, 31)]
    said = "Error while executing groups command : Cluster authorization failed.\n"
    assert run_command(all_groups.run, [*S, "--list"], made) == (1, said, "")


def test_brokers_are_asked_for_what_is_shown() -> None:
    made = broker()
    ran(made, "--list", "--state", "stable,Empty")
    ran(made, "--list", "--type", "classic")
    asked = [(body.states_filter, body.types_filter) for key, body in made.asked
             if key == LIST_GROUPS]  # fmt: skip
    assert asked == [(("Stable", "Empty"), ("Consumer", "Classic")), ((), ("Classic",))]


def test_offsets_that_are_refused_or_of_topics_that_are_gone_are_not_shown() -> None:
    made = broker()
    made.groups["idle"].offsets[("gone", 0)] = 1
    made.offset_errors[("t", 0)] = 29
    (found,) = told(made, "--describe", "--group", "idle")["groups"]
    assert [(row["topic"], row["partition"]) for row in found["offsets"]] == [("t", 1)]


def test_a_dry_run_commits_nothing_and_neither_does_a_reset_of_nothing() -> None:
    made = broker()
    made.groups["idle"].offsets = {}
    words = ["--reset-offsets", "--group", "idle", "--to-latest"]
    ran(made, *words, "--topic", "t", "--dry-run")
    ran(made, *words, "--all-topics", "--execute")
    assert OFFSET_COMMIT not in [key for key, _ in made.asked]


def test_a_group_that_may_not_be_described_is_not_reset() -> None:
    made = broker()
    made.errors = [(CONSUMER_GROUP_DESCRIBE, 30)]
    words = ["--reset-offsets", "--group", "idle", "--to-latest", "--topic", "t", "--execute"]
    assert "GroupAuthorizationException" in ran(made, *words)[1]
    assert OFFSET_COMMIT not in [key for key, _ in made.asked]


def test_partitions_that_are_named_twice_are_asked_for_once() -> None:
    made = broker()
    twice = ["--group", "idle", "--topic", "t", "--topic", "t:0,0"]
    ran(made, "--reset-offsets", *twice, "--to-latest", "--dry-run")
    ran(made, "--delete-offsets", *twice)
    asked = [[p.partition_index for topic in body.topics for p in topic.partitions]
             for key, body in made.asked if key in (LIST_OFFSETS, OFFSET_DELETE)]  # fmt: skip
    assert [sorted(numbers) for numbers in asked] == [[0, 1, 2], [0, 1, 2]]


def test_a_timeout_is_one_that_a_socket_can_have() -> None:
    found = [parse([*S, "--list", "--timeout", text]).timeout for text in ("0", "7", "9" * 18)]
    assert found == [1, 7, 2**31 - 1]
    assert parse([*S, "--list"]).request_timeout_ms == 5000


def test_assignments_are_told_by_topic_and_number() -> None:
    mixed = [Partition("u", 1), Partition("t", 10), Partition("t", 9), Partition("t-x", 0)]
    assert assignment(mixed) == "t-x:0;t:9,10;u:1"
    assert assignment([]) == "-"
