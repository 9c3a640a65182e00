"""`kraftline verifiable-consumer` beyond the recorded outputs."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from cli.groups import verifiable_consumer
from tests.cli.groups.group_broker import OFFSET_COMMIT
from tests.cli.groups.member_broker import CONSUMER_GROUP_HEARTBEAT, JOIN_GROUP, MemberBroker
from tests.cli.records.broker import FETCH, Log
from tests.cli.records.golden import run_command

S = ["--bootstrap-server", "h:1", "--topic", "t", "--group-id", "g"]


def broker() -> MemberBroker:
    logs = [Log(), Log()]
    logs[0].append(b"a", (b"k", b"\xff"), b"c")
    logs[1].append(b"d")
    return MemberBroker(t=logs)


def events(made: MemberBroker, *words: str) -> list[dict[str, Any]]:
    code, out, err = run_command(verifiable_consumer.run, [*S, *words], made)
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def names(found: list[dict[str, Any]]) -> list[str]:
    return [event["name"] for event in found]


def test_records_up_to_the_limit_are_told_and_committed() -> None:
    made = broker()
    found = events(made, "--max-messages", "2", "--verbose")
    assert [(e["key"], e["value"], e["offset"]) for e in found if e["name"] == "record_data"] == [
        (None, "a", 0), ("k", "\ufffd", 1)
    ]  # fmt: skip
    assert found[4]["count"] == 4
    assert found[4]["partitions"] == [
        {"topic": "t", "partition": 0, "count": 2, "minOffset": 0, "maxOffset": 1}
    ]
    assert found[5]["offsets"] == [{"topic": "t", "partition": 0, "offset": 2}]
    assert names(found)[5:] == ["offsets_committed", "partitions_revoked", "shutdown_complete",
                                "shutdown_requested"]  # fmt: skip
    assert made.groups["g"].offsets == {("t", 0): (2, 0)}
    assert events(made, "--max-messages", "2")[2]["partitions"] == [
        {"topic": "t", "partition": 0, "count": 1, "minOffset": 2, "maxOffset": 2},
        {"topic": "t", "partition": 1, "count": 1, "minOffset": 0, "maxOffset": 0},
    ]
    assert made.left == ["me", "me"]


def test_the_limit_counts_over_polls() -> None:
    made = broker()
    made.batches_max = 1
    for log in made.topics["t"].logs:
        log.append(b"e")
    found = [e for e in events(made, "--max-messages", "6") if e["name"] == "records_consumed"]
    assert [event["count"] for event in found] == [4, 2]


def test_commits_that_fail_are_told() -> None:
    made = broker()
    made.errors = [(OFFSET_COMMIT, 25)]
    found = events(made, "--max-messages", "4")
    (told,) = [event for event in found if event["name"] == "offsets_committed"]
    assert (told["success"], told["offsets"]) == (False, [])
    assert "UnknownMemberIdException" in told["error"]


def test_automatic_commits_are_not_told() -> None:
    made = broker()
    assert "offsets_committed" not in names(
        events(made, "--max-messages", "4", "--enable-autocommit")
    )
    assert made.groups["g"].offsets == {("t", 0): (3, 0), ("t", 1): (1, 0)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    made = broker()
    answer = made.answers[FETCH]

    def fetch(broker: Any, request: Any) -> Any:
        signal.raise_signal(number)
        return answer(broker, request)

    made.answers[FETCH] = fetch
    before = signal.getsignal(number)
    found = names(events(made))
    assert found == ["startup_complete", "partitions_assigned", "shutdown_requested",
                     "records_consumed", "offsets_committed", "partitions_revoked",
                     "shutdown_complete"]  # fmt: skip
    assert signal.getsignal(number) == before


def test_it_goes_on_without_records_until_it_is_stopped() -> None:
    made = MemberBroker(t=1)
    answer = made.answers[FETCH]

    def fetch(broker: Any, request: Any) -> Any:
        if made.clock.at_ms > 2500:
            signal.raise_signal(signal.SIGTERM)
        return answer(broker, request)

    made.answers[FETCH] = fetch
    assert "records_consumed" not in names(events(made))
    assert made.clock.at_ms > 2500


def test_settings_of_both_protocols() -> None:
    made = broker()
    strategy = "org.apache.kafka.clients.consumer.RoundRobinAssignor"
    events(made, "--max-messages", "1", "--session-timeout", "7000", "--group-instance-id", "i",
           "--assignment-strategy", strategy, "--group-remote-assignor", "x")  # fmt: skip
    join = made.asked_for(JOIN_GROUP)[-1]
    assert (join.session_timeout.total_seconds(), join.group_instance_id) == (7, "i")
    assert [protocol.name for protocol in join.protocols] == ["roundrobin"]
    made = broker()
    events(made, "--max-messages", "1", "--group-protocol", "consumer", "--group-remote-assignor",
           "range")  # fmt: skip
    first = made.asked_for(CONSUMER_GROUP_HEARTBEAT)[0]
    assert (first.server_assignor, first.instance_id) == ("range", None)
    events(broker(), "--max-messages", "1")


def test_options_go_above_a_file_also_where_they_are_not_given(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(
        "session.timeout.ms=9000\nauto.offset.reset=latest\n"
        "max.poll.interval.ms=7000\nisolation.level=read_committed\n"
    )
    made = broker()
    words = ["--max-messages", "1", "--command-config", str(tmp_path / "p")]
    code, out, _ = run_command(verifiable_consumer.run, [*S, *words], made)
    assert code == 0
    assert '"records_consumed"' in out, "from the earliest on"
    joined = made.asked_for(JOIN_GROUP)[-1]
    assert joined.session_timeout.total_seconds() == 30
    assert joined.rebalance_timeout.total_seconds() == 7
    assert made.asked_for(FETCH)[0].isolation_level == 1


def test_what_ends_it_is_told_on_standard_error() -> None:
    for made, words in ((broker(), ["--reset-policy", "none"]), (broker(), [])):
        made.errors = [] if words else [(JOIN_GROUP, 26)]
        code, out, err = run_command(verifiable_consumer.run, [*S, *words], made)
        assert code == 0
        assert err.startswith("Error during processing, terminating consumer process: \n")
        assert '"shutdown_complete"' in out
    made = broker()
    code, out, _ = run_command(
        verifiable_consumer.run, [*S, "--reset-policy", "latest", "--max-messages", "0"], made
    )
    assert (code, made.asked) == (0, [])


@pytest.mark.parametrize("name", ["topic", "group-id", "bootstrap-server"])
def test_what_is_required(name: str) -> None:
    place = S.index(f"--{name}")
    words = [*S[:place], *S[place + 2 :]]
    code, _, err = run_command(verifiable_consumer.run, words, broker())
    assert code == 1
    assert err.splitlines()[0] == f"argument --{name} is required"
