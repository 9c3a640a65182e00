"""`console-consumer --group`: what it commits, and configs that are refused."""

import contextlib
import signal
from collections.abc import Iterator

import pytest

from cli.groups.membership.actions import GroupConfig
from cli.groups.membership.group_configs import group_config
from cli.records import console_consumer, consuming
from tests.cli.groups.member_broker import JOIN_GROUP, MemberBroker
from tests.cli.groups.test_group_consumer import broker
from tests.cli.records.golden import run_command

S = ["--bootstrap-server", "h:1", "--topic", "t", "--group", "g", "--from-beginning"]


@contextlib.contextmanager
def committed(made: MemberBroker, expected: object) -> Iterator[None]:
    yield
    assert made.groups["g"].offsets == expected


@pytest.mark.parametrize("words", [[], ["--command-property", "group.protocol=consumer"]])
def test_the_command_commits_what_it_printed(words: list[str]) -> None:
    made = broker(3)
    with committed(made, {("t", 0): (2, 7)}):
        code, out, err = run_command(
            console_consumer.run, [*S, "--max-messages", "2", *words], made
        )
        assert (code, out) == (0, "value 0\nvalue 1\n")
        assert err == "Processed a total of 2 messages\n"
    with committed(made, {("t", 0): (3, 7)}):
        code, out, _ = run_command(console_consumer.run, [*S, "--timeout-ms", "2000", *words], made)
        assert (code, out) == (0, "value 2\n")
    assert len(made.left) == 2


def test_a_record_that_cannot_be_printed_is_the_last_that_is_committed() -> None:
    made = broker(3)
    words = ["--value-deserializer", "org.apache.kafka.common.serialization.LongDeserializer"]
    with committed(made, {("t", 0): (1, 7)}):
        code, _, err = run_command(console_consumer.run, [*S, *words], made)
        assert code == 1
        assert "Size of data received by LongDeserializer is not 8" in err


def test_a_group_that_refuses_ends_the_command_as_kafkas() -> None:
    made = broker(3)
    made.errors = [(JOIN_GROUP, 23)]
    code, _, err = run_command(console_consumer.run, S, made)
    assert code == 0
    assert err.startswith("Error processing message, terminating consumer process: \nThe group mem")


@pytest.mark.parametrize(
    ("word", "said"),
    [("group.protocol=share", "Invalid value share for configuration group.protocol: String must"),
     ("session.timeout.ms=x", "Invalid value x for configuration session.timeout.ms"),
     ("heartbeat.interval.ms=-1", "heartbeat.interval.ms: Value must be at least 0"),
     ("auto.commit.interval.ms=-1", "auto.commit.interval.ms: Value must be at least 0"),
     ("max.poll.interval.ms=0", "max.poll.interval.ms: Value must be at least 1"),
     ("group.remote.assignor=range", "group.remote.assignor cannot be set when group.protocol=C"),
     ("partition.assignment.strategy=x.Y", "Invalid value x.Y for configuration partition.ass"),
     ("enable.auto.commit=maybe", "Invalid value maybe for configuration enable.auto.commit")],
)  # fmt: skip
def test_configs_that_are_refused(word: str, said: str) -> None:
    made = broker(3)
    code, _, err = run_command(console_consumer.run, [*S, "--command-property", word], made)
    assert code == 1
    assert err.startswith("Unknown error when running consumer: \n")
    assert said in err
    assert made.asked == []


@pytest.mark.parametrize(
    "name", ["session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"]
)
def test_configs_that_the_coordinator_decides(name: str) -> None:
    words = ["--command-property", f"{name}=1", "--command-property", "group.protocol=CONSUMER"]
    code, _, err = run_command(console_consumer.run, [*S, *words], broker(3))
    assert code == 1
    assert f"{name} cannot be set when group.protocol=CONSUMER" in err


def test_configs_that_are_taken() -> None:
    package = "org.apache.kafka.clients.consumer."
    strategies = f"{package}RoundRobinAssignor, {package}RangeAssignor"
    found = group_config(
        {"session.timeout.ms": "1", "heartbeat.interval.ms": "2", "max.poll.interval.ms": "3",
         "auto.commit.interval.ms": "4", "metadata.max.age.ms": "5", "group.instance.id": "i",
         "request.timeout.ms": "6",
         "enable.auto.commit": "false", "partition.assignment.strategy": strategies}, "g",
    )  # fmt: skip
    assert found == GroupConfig(
        group_id="g", session_timeout_ms=1, heartbeat_interval_ms=2, max_poll_interval_ms=3,
        auto_commit_interval_ms=4, metadata_max_age_ms=5, group_instance_id="i",
        request_timeout_ms=6,
        enable_auto_commit=False, assignors=("roundrobin", "range"),
    )  # fmt: skip
    other = group_config({"group.protocol": "Consumer", "group.remote.assignor": "range"}, "g")
    assert other == GroupConfig(
        group_id="g", is_consumer_protocol=True, group_remote_assignor="range"
    )
    assert group_config({}, "g") == GroupConfig(group_id="g")


def test_an_empty_group_is_refused() -> None:
    code, _, err = run_command(console_consumer.run, [*S[:4], "--group", " "], broker(3))
    assert code == 1
    assert "The configured group.id should not be an empty string or whitespace." in err


def test_two_groups_are_refused() -> None:
    words = ["--command-property", "group.id=h"]
    code, _, err = run_command(console_consumer.run, [*S, *words], broker(3))
    assert code == 1
    assert "Detected group ids: 'g', 'h'" in err


def test_a_second_termination_does_not_disturb_the_end() -> None:
    before = consuming.on_termination()
    try:
        with pytest.raises(SystemExit) as left:
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert left.value.code == 143
