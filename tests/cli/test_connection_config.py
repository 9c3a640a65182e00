"""`--command-config` of every command that talks to a cluster."""

from argparse import Namespace
from pathlib import Path

import pytest

from cli.admin import cluster, leader_election, topics
from cli.arguments import TEXT_CHARACTERS_MAX, UsageError
from cli.connection_config import ConnectionConfig, connection_config
from cli.groups import all_groups, consumer_groups, verifiable_consumer
from cli.records import console_consumer
from cli.transactions import command

NOBODY = ("--bootstrap-server", "127.0.0.1:1")
GROUPS = ("--list",)
TOOLS = {
    "groups": (consumer_groups.run, GROUPS, "--command-config"),
    "all-groups": (all_groups.run, GROUPS, "--command-config"),
    "transactions": (command.run, ("list",), "--command-config"),
    "topics": (topics.run, GROUPS, "--command-config"),
    "leader-election": (
        leader_election.run,
        ("--election-type", "preferred", "--all-topic-partitions"),
        "--admin.config",
    ),
    "cluster": (cluster.run, (), "--config"),
    "verifiable-consumer": (
        verifiable_consumer.run, ("--topic", "t", "--group-id", "g"), "--consumer.config",
    ),
    "console-consumer": (console_consumer.run, ("--topic", "t"), "--command-config"),
}  # fmt: skip


@pytest.mark.parametrize("name", TOOLS)
def test_each_command_reads_its_file(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, words, flag = TOOLS[name]
    path = tmp_path / "client.properties"
    line = [*NOBODY, *words, flag, str(path)]
    if name == "transactions":
        line = [*NOBODY, flag, str(path), *words]
    if name == "cluster":
        line = ["cluster-id", *NOBODY, flag, str(path)]
    assert run(line) == 1
    assert "No such file or directory" in capsys.readouterr().err
    path.write_text("security.protocol=SASL_SSL\n")
    assert run(line) == 1
    assert capsys.readouterr().err == "security.protocol SASL_SSL is not spoken, PLAINTEXT is\n"


def read(tmp_path: Path, text: str, **options: object) -> ConnectionConfig:
    path = tmp_path / "client.properties"
    path.write_text(text)
    return connection_config(Namespace(command_config=str(path), **options))


def test_id_and_timeout_of_the_file(tmp_path: Path) -> None:
    assert read(tmp_path, "") == ConnectionConfig()
    assert connection_config(Namespace()) == ConnectionConfig(
        client_id="kraftline-cli", request_timeout_ms=30_000
    )
    text = "client.id=me\nrequest.timeout.ms=700\nsecurity.protocol=plaintext\nother=1\n"
    found = ConnectionConfig(client_id="me", request_timeout_ms=700)
    assert read(tmp_path, text) == found
    with pytest.raises(UsageError, match=r"Invalid value x for configuration request.timeout.ms"):
        read(tmp_path, "request.timeout.ms=x")
    longest = "i" * TEXT_CHARACTERS_MAX
    assert read(tmp_path, f"client.id={longest}").client_id == longest
    with pytest.raises(UsageError, match=r"client.id has more than 32767 characters"):
        read(tmp_path, f"client.id={longest}i")


def test_the_command_line_takes_precedence_and_its_limit_bounds_each_request(
    tmp_path: Path,
) -> None:
    text = "client.id=me\nrequest.timeout.ms=700"
    for name in ("command_property", "consumer_property", "producer_property", "producer_props"):
        assert read(tmp_path, text, **{name: ["client.id=you"]}).client_id == "you"
        assert connection_config(Namespace(**{name: ["client.id=you"]})).client_id == "you"
    for limit_ms, timeout_ms in ((None, 700), (701, 700), (699, 699), (0, 1)):
        found = read(tmp_path, text, request_timeout_ms=limit_ms)
        assert (found.client_id, found.request_timeout_ms) == ("me", timeout_ms)
    assert read(tmp_path, "request.timeout.ms=0").request_timeout_ms == 1
