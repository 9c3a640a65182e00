"""Every recorded output of Kafka's records tools, made again: equal, or known why not."""

from pathlib import Path

import pytest

from cli.main import COMMANDS as OURS
from tests.cli.groups.member_broker import MemberBroker
from tests.cli.records import golden
from tests.cli.records.broker import Broker, Topic
from tests.cli.records.coordinator_topics import TOPICS, log_of
from tests.cli.records.golden import apart_from, captured, outputs, verdicts
from tests.cli.records.recorded_topics import broker, write_files
from tests.cli.records.table import APART, TOOLS, table
from tests.cli.transactions.real_broker import RealBroker

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "cli.md"
REPLAYED = sorted(
    name for name in verdicts() if verdicts()[name].verdict not in ("no answer", "no command")
)


def broker_of(name: str) -> Broker | RealBroker:
    """The broker for an output, with the coordinator's topic that it prints."""
    if "/console-consumer-group-" in name:
        return with_members(broker(name))
    if name.endswith("/producer-perf-transactional"):
        return RealBroker(**{"orders-perf": 1})
    made, topic = broker(name), TOPICS.get(name.partition("/")[2])
    if topic is not None:
        run = outputs()[name]
        made.topics[topic] = Topic(topic, [log_of(topic, run.stdout, run.stderr)])
    return made


def with_members(made: Broker) -> Broker:
    """The same topics, where groups can be joined."""
    found = MemberBroker()
    found.topics = made.topics
    return found


@pytest.mark.parametrize("name", REPLAYED)
def test_output(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, held = outputs()[name], verdicts()[name]
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    ours = captured(run, broker_of(name))
    found = apart_from(ours, run)
    if held.verdict == "differs":
        assert found is None, f"no longer different, apart from {found}"
        assert held.why
    else:
        assert found is not None, f"{ours=}"
        assert list(found) == held.apart
        assert held.verdict == ("apart" if held.apart else "equal")


def test_every_output_has_a_verdict() -> None:
    assert verdicts().keys() == outputs().keys()
    assert len(outputs()) == 120
    left_out = {name: held for name, held in verdicts().items() if name not in REPLAYED}
    assert all(held.why for held in left_out.values() if held.verdict == "no answer")
    assert {golden.COMMANDS[run.command].replace("_", "-") in OURS for name, run in
            outputs().items() if verdicts()[name].verdict == "no command"} <= {False}  # fmt: skip


def test_the_table_of_the_document_says_the_same() -> None:
    assert APART.keys() == golden.APART.keys()
    assert TOOLS.keys() == golden.COMMANDS.keys()
    assert table() in DOCUMENT.read_text(encoding="utf-8")
