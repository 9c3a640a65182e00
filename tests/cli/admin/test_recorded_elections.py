"""Outputs of kafka-topics and kafka-leader-election beside the records tools, made again.

They were recorded at one broker; the log of its metadata was not kept. Its topics are made anew:
those of the outputs of `--create`, and what the elections tell of the others.
"""

import json
from pathlib import Path

import pytest

import cli.admin.leader_election
import cli.admin.topics
from metadata.apply import apply
from metadata.delta import MetadataDelta
from metadata.image import Image
from metadata.records import PartitionRecord, TopicRecord
from tests.cli.comparison import apart_from
from tests.cli.golden import data_others
from tests.cli.recorded_cluster import RecordedCluster
from tests.cli.replay import captured

ONE_BROKER = ("single-4.3.1", 16)
"""Place in a recorded log where one broker is there, and no topic."""
BROKER, GONE = 101, 104
TOOLS = {"TopicCommand": cli.admin.topics, "LeaderElectionCommand": cli.admin.leader_election}
RUNS = {name.partition("/")[2]: run for name, run in data_others().items() if run.command in TOOLS}
DIFFERENT = {
    "leader-election-bad-type": "Unknown election type 'sideways': it is preferred or unclean\n",
    "leader-election-file-missing": "nofile.json: No such file or directory\n",
}
"""Lines of ours that say more than Kafka's: what it may be, why a file cannot be read."""
LED_BY: dict[str, list[int]] = {
    "orders": [BROKER] * 3,
    "remote": [GONE],
    "__share_group_state": [BROKER, GONE],
}
"""Broker of each partition, which has one replica; one is not there any more."""


def with_topics(image: Image) -> Image:
    for number, (name, brokers) in enumerate(LED_BY.items(), 1):
        topic_id = bytes(15) + bytes([number])
        partitions = [
            PartitionRecord(
                partition_id=partition,
                topic_id=topic_id,
                replicas=(broker,),
                isr=(broker,),
                leader=broker if broker == BROKER else -1,
                leader_epoch=0,
                partition_epoch=0,
            )
            for partition, broker in enumerate(brokers)
        ]
        for record in (TopicRecord(name=name, topic_id=topic_id), *partitions):
            image = apply(image, record, image.provenance.end_offset, MetadataDelta())
    return image


@pytest.mark.parametrize("name", RUNS)
def test_output(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RUNS[name]
    monkeypatch.chdir(tmp_path)
    elected = {"partitions": [{"topic": "orders", "partition": 0}]}
    (tmp_path / "elect.json").write_text(json.dumps(elected))
    cluster = RecordedCluster(*ONE_BROKER)
    if run.command == "LeaderElectionCommand":
        cluster.image = with_topics(cluster.image)
    ours = captured(TOOLS[run.command].run, run.args, cluster.opened)
    if name in DIFFERENT:
        assert ours == (run.exit, run.stdout, DIFFERENT[name])
    else:
        assert apart_from(ours, run) in ((), ("java",), ("java", "usage")), f"{ours=}"
    assert bool(cluster.written) == name.startswith("topics-create-")


def test_all_of_the_two_tools_are_made_again() -> None:
    assert len(RUNS) == 18
