"""`get-offsets`, `delete-records` and `log-dirs` where no recorded output goes."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.arguments import UsageError
from cli.kafka_errors import exception_class, exception_text
from cli.records import delete_records, get_offsets, log_dirs
from cli.records.clients.topic_metadata import Partition
from cli.records.partition_rules import rules_of, topic_and_numbers
from tests.cli.records.broker import (
    DELETE_RECORDS,
    DESCRIBE_LOG_DIRS,
    LIST_OFFSETS,
    METADATA,
    Broker,
    Log,
)
from tests.cli.records.golden import run_command

S = ["--bootstrap-server", "h:1"]
NO_LEADER_TEXT = exception_text(5)


def numbers(rule: Any, topic: str = "t") -> list[int]:
    return [n for n in range(6) if rule(Partition(topic, n))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("t", [0, 1, 2, 3, 4, 5]), ("t:2", [2]), ("t:1-3", [1, 2]), ("t:4-", [4, 5]), ("t:-2", [0, 1]),
     (":3", [3]), ("x,t:0,t:5", [0, 5]), ("t:", [0, 1, 2, 3, 4, 5]), ("tt", []), (".:1,,", [1]),
     ("t:-", [0, 1, 2, 3, 4, 5]), ("t:007", [])],
)  # fmt: skip
def test_rules(text: str, expected: list[int]) -> None:
    assert numbers(rules_of(text)) == expected


@pytest.mark.parametrize("text", ["t:x", "t:1:2", "(:0", "t:99999999999", "t:0-2147483648"])
def test_rules_of_another_form(text: str) -> None:
    with pytest.raises(UsageError):
        rules_of(text)


def test_an_empty_rule_means_every_partition_of_every_topic() -> None:
    assert numbers(rules_of(""), "any") == [0, 1, 2, 3, 4, 5]


def test_topic_and_partitions() -> None:
    assert numbers(topic_and_numbers("t|u", "0,5,")) == [0, 5]
    assert numbers(topic_and_numbers(None, None), "any") == [0, 1, 2, 3, 4, 5]
    assert numbers(topic_and_numbers("u", None)) == []
    with pytest.raises(UsageError, match="invalid regex"):
        topic_and_numbers("(", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("latest", -1), ("earliest-pending-upload", -6), ("+5", 5), ("-9", -9),
     ("9223372036854775807", 2**63 - 1), ("9223372036854775808", None), ("-+5", None), ("", None),
     ("\u0661", None), ("9" * 5000, None)],
)  # fmt: skip
def test_times(text: str, expected: int | None) -> None:
    if expected is None:
        with pytest.raises(UsageError, match="Malformed time argument"):
            get_offsets.timestamp_of(text)
    else:
        assert get_offsets.timestamp_of(text) == expected


def test_offsets_of_partitions_with_and_without_a_leader() -> None:
    lost = Log(leader=-1)
    broker = Broker(t=[Log(), lost], __internal=1)
    broker.topics["t"].logs[0].append(b"a", b"b")
    broker.topics["__internal"].is_internal = True
    code, out, err = run_command(get_offsets.run, S, broker)
    assert (code, out) == (0, "__internal:0:0\nt:0:2\n")
    assert err == f"Skip getting offsets for topic-partition t-1 due to error: {NO_LEADER_TEXT}\n"
    flags = [*S, "--exclude-internal-topics", "--json"]
    code, out, err = run_command(get_offsets.run, flags, broker)
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "offsets": [{"topic": "t", "partition": 0, "offset": 2, "timestamp": -1}],
        "errors": {"t-1": NO_LEADER_TEXT},
    }
    asked = [body for key, body in broker.asked if key == LIST_OFFSETS]
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in asked[-1].topics] == [
        ("t", [0])
    ]


def deleted(broker: Broker, folder: Path, content: str, *flags: str) -> tuple[int, str, str]:
    path = folder / "offsets.json"
    path.write_text(content)
    return run_command(delete_records.run, [*S, "--offset-json-file", str(path), *flags], broker)


ROW = '{"partitions": [{"topic": %s, "partition": %s, "offset": %s}]}'


def test_deletion_reaches_the_leader_and_tells_what_is_left(tmp_path: Path) -> None:
    broker = Broker(t=[Log(), Log(leader=-1)])
    broker.topics["t"].logs[0].append(b"a", b"b")
    rows = [
        {"topic": name, "partition": number, "offset": 1}
        for name, number in (("u", 0), ("t", 1), ("t", 0), ("t", 7))
    ]
    unknown = exception_text(3)
    code, out, err = deleted(broker, tmp_path, json.dumps({"partitions": rows}))
    assert (code, err) == (0, "")
    assert out.splitlines()[2:] == [
        "partition: t-0\tlow_watermark: 1",
        f"partition: t-1\terror: {NO_LEADER_TEXT}",
        f"partition: t-7\terror: {unknown}",
        f"partition: u-0\terror: {unknown}",
    ]
    assert broker.topics["t"].logs[0].start == 1
    (asked,) = (body for key, body in broker.asked if key == DELETE_RECORDS)
    assert [p.partition_index for t in asked.topics for p in t.partitions] == [0]
    code, out, err = deleted(broker, tmp_path, ROW % ('"t"', 0, 2), "--json")
    assert (code, json.loads(out)) == (0, {"low_watermarks": {"t-0": 2}, "errors": {}})


def asked_and_deleted(broker: Broker, folder: Path) -> list[str]:
    """The lines of `get-offsets` and, behind its titles, of `delete-records`."""
    code, out, err = run_command(get_offsets.run, S, broker)
    assert code == 0
    deletion, deleted_out, deleted_err = deleted(broker, folder, ROW % ('"t"', 0, 1))
    assert (deletion, deleted_err) == (0, "")
    return [*out.splitlines(), *err.splitlines(), *deleted_out.splitlines()[2:]]


@pytest.mark.parametrize("code", [6, 7, 56, 74])
def test_a_leader_that_moves_is_asked_anew(code: int, tmp_path: Path) -> None:
    broker = Broker(t=1)
    broker.topics["t"].logs[0].append(b"a")
    broker.errors = [(key, code) for key in (LIST_OFFSETS, DELETE_RECORDS) for _ in range(3)]
    assert asked_and_deleted(broker, tmp_path) == ["t:0:1", "partition: t-0\tlow_watermark: 1"]
    assert broker.clock.now_ms() == 2 * (100 + 200 + 400)
    assert [key for key, _ in broker.asked].count(METADATA) == 2 * (1 + 3)


def test_a_leader_that_cannot_be_reached_is_waited_for(tmp_path: Path) -> None:
    broker = Broker(t=1)
    broker.topics["t"].logs[0].append(b"a")
    broker.refused = [LIST_OFFSETS, LIST_OFFSETS, DELETE_RECORDS, DELETE_RECORDS]
    assert asked_and_deleted(broker, tmp_path) == ["t:0:1", "partition: t-0\tlow_watermark: 1"]
    assert broker.clock.now_ms() == 2 * (100 + 200)


def test_the_wait_for_leaders_has_an_end(tmp_path: Path) -> None:
    broker = Broker(t=1)
    broker.refused = [key for key in (LIST_OFFSETS, DELETE_RECORDS) for _ in range(99)]
    text = exception_text(7)
    assert asked_and_deleted(broker, tmp_path) == [
        f"Skip getting offsets for topic-partition t-0 due to error: {text}",
        f"partition: t-0\terror: {text}",
    ]
    assert broker.clock.now_ms() == 2 * 60_000


def test_what_was_answered_is_not_asked_again_and_descriptions_may_fail() -> None:
    broker = Broker(t=2)
    broker.errors = [(LIST_OFFSETS, 6), (LIST_OFFSETS, 0), (LIST_OFFSETS, 1)]
    broker.refused_later = [METADATA]
    code, out, err = run_command(get_offsets.run, S, broker)
    assert (code, out) == (0, "t:1:0\n")
    assert err.endswith(f"t-0 due to error: {exception_text(1)}\n")
    asked = [body for key, body in broker.asked if key == LIST_OFFSETS]
    numbers_asked = [
        [p.partition_index for t in body.topics for p in t.partitions] for body in asked
    ]
    assert numbers_asked == [[0, 1], [0]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "Expected JSON object, received []"),
        ('{"version": "1"}', "Not supported version field value 1"),
        ('{"version": true}', "Not supported version field value True"),
        ('{"partitions": 5}', "Expected JSON array, received 5"),
        ('{"partitions": [5]}', "Expected JSON object, received 5"),
        ('{"partitions": [{"topic": "t"}]}', "No such field exists: `partition`"),
        (ROW % (5, 0, 0), "Expected `String` value, received 5"),
        (ROW % ('"t"', 2**31, 0), f"Expected `Integer` value, received {2**31}"),
        (ROW % ('"t"', "true", 0), "Expected `Integer` value, received true"),
        (ROW % ('"t"', 0, 2**63), f"Expected `Long` value, received {2**63}"),
        (ROW % ('"t"', 0, '"1"'), 'Expected `Long` value, received "1"'),
    ],
)
def test_files_of_another_form(content: str, said: str, tmp_path: Path) -> None:
    broker = Broker(t=1)
    assert deleted(broker, tmp_path, content) == (1, "", said + "\n")
    assert broker.asked == []


def test_a_directory_that_is_lost_and_json_alone() -> None:
    broker = Broker(b=2, a=1)
    broker.errors.append((DESCRIBE_LOG_DIRS, 56))
    code, out, err = run_command(log_dirs.run, [*S, "--describe", "--json"], broker)
    assert (code, err) == (0, "")
    ((node,), version) = json.loads(out).values()
    assert (version, node["broker"]) == (1, 1)
    lost, good = node["logDirs"]
    assert lost == {"partitions": [], "error": exception_class(56), "logDir": "/lost"}
    assert (good["error"], good["logDir"]) == (None, "/var/kafka/n1/log")
    assert [p["partition"] for p in good["partitions"]] == ["a-0", "b-0", "b-1"]


@pytest.mark.parametrize("word", ["x", "1,-+2", "\u0661", "9" * 5000])
def test_brokers_that_are_no_numbers(word: str) -> None:
    code, out, err = run_command(log_dirs.run, [*S, "--describe", "--broker-list", word], Broker())
    assert (code, out) == (1, "")
    assert err.startswith('For input string: "')
    assert len(err) < 120
