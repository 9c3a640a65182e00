"""`quorum transfer-leader`: to a quorum of ours in virtual time, and to what Kafka answers."""

import json
from contextlib import nullcontext
from typing import Any

import pytest

from cli.admin import quorum
from cli.main import main
from tests.cli.golden import outputs, verdicts
from tests.cli.quorum_answers import recorded_answer
from tests.cli.recorded_cluster import RecordedCluster
from tests.kernel.harness import World

SERVER = ["--bootstrap-server", "127.0.0.1:1"]
CONTROLLER = ["--bootstrap-controller", "127.0.0.1:1"]


class Quorum:
    """`cli.connect.Api` of a running world, by one of its nodes."""

    def __init__(self, listener: str) -> None:
        self.world = World()
        self.world.start_all()
        self.world.run_until(self.world.is_ready)
        self.world.run_for(1_000)
        self.leader = self.world.active() or 0
        self.others = [n for n in self.world.nodes if n != self.leader]
        self.client = self.world.client(self.leader, listener)
        self.timeouts: list[Any] = []

    def opened(self, _options: Any) -> Any:
        return nullcontext(self)

    def supports(self, _api_key: int) -> bool:
        return True

    def call(self, api_key: int, body: Any, node: int | None = None) -> Any:
        assert node is None, f"{node=}"
        if hasattr(body, "timeout"):
            self.timeouts.append(body.timeout.total_seconds() * 1000)
        return self.client.call(api_key, body)


@pytest.mark.parametrize(("where", "listener"), [
    (SERVER, "PLAINTEXT"), (CONTROLLER, "CONTROLLER"),
])  # fmt: skip
def test_it_says_who_leads_then(
    where: list[str], listener: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Quorum(listener)
    target = asked.others[1]
    words = [*where, "transfer-leader", "--to", str(target)]
    assert quorum.run(words, asked.opened) == 0
    assert capsys.readouterr().out == f"Node {target} leads epoch 2\n"
    asked.world.run_until(asked.world.is_ready)
    assert asked.world.active() == target
    assert asked.timeouts == [30_000]


def test_in_json_and_with_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    asked = Quorum("PLAINTEXT")
    target = asked.others[0]
    words = [*SERVER, "transfer-leader", "--to", str(target), "--json", "--timeout", "700"]
    assert quorum.run(words, asked.opened) == 0
    assert json.loads(capsys.readouterr().out) == {
        "former_leader_id": asked.leader,
        "former_leader_epoch": 1,
        "leader_id": target,
        "message": f"node {target} leads epoch 2",
    }
    assert asked.timeouts == [700]


def test_the_leader_needs_no_transfer(capsys: pytest.CaptureFixture[str]) -> None:
    asked = Quorum("PLAINTEXT")
    words = [*SERVER, "transfer-leader", "--to", str(asked.leader)]
    assert quorum.run(words, asked.opened) == 0
    assert capsys.readouterr().out == f"Node {asked.leader} leads epoch 1 already\n"
    assert asked.timeouts == []


def failed(words: list[str], opened: Any, capsys: pytest.CaptureFixture[str]) -> str:
    """The line on standard error of a command that fails."""
    assert quorum.run(words, opened) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.removesuffix("\n")


def test_a_target_that_does_not_follow(capsys: pytest.CaptureFixture[str]) -> None:
    asked = Quorum("PLAINTEXT")
    target, third = asked.others
    asked.world.pause(target)
    words = [*SERVER, "transfer-leader", "--to", str(target)]
    assert asked.client.create_topic("one").error_code.value == 0
    said = failed(words, asked.opened, capsys)
    assert said.startswith(f"Voter {target} has fetched up to ")
    assert said.endswith(f": node {asked.leader} goes on leading epoch 1")
    asked.world.run_for(2_000)
    assert failed(words, asked.opened, capsys).startswith(f"Voter {target} has not fetched for ")
    words[-1] = "7"
    assert failed(words, asked.opened, capsys) == "Node 7 is none of the voters: 1, 2, 3"
    assert asked.world.active() == asked.leader
    assert third in asked.world.alive


def test_kafka_does_not_transfer_it(capsys: pytest.CaptureFixture[str]) -> None:
    name = "static-4.3.1/quorum-status-after-kill"
    answer = recorded_answer(outputs()[name], verdicts()[name])
    cluster = RecordedCluster("static-4.3.1", 340, quorum=answer)
    said = failed([*SERVER, "transfer-leader", "--to", "3"], cluster.opened, capsys)
    epoch = answer.topics[0].partitions[0].leader_epoch
    assert said == (
        f"Node 2 leads epoch {epoch}, and cannot transfer that: it is Kafka's, or of an older "
        "release. Stop it to have another voter elected."
    )


@pytest.mark.parametrize(("words", "said"), [
    ((), "the following arguments are required: --to"),
    (("--to", "-1"), "'-1' is not a whole number from 0 to 2147483647"),
    (("--to", "1", "--timeout", "0"), "'0' is not a whole number from 1 to 2147483647"),
])  # fmt: skip
def test_words_that_are_refused(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["quorum", *SERVER, "transfer-leader", *words])
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
