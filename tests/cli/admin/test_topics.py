"""`topics`: what recorded outputs do not show (those are in test_golden_outputs.py)."""

import json
from typing import Any

import pytest

from cli.admin import topics
from cli.connect import ClusterError
from cli.main import main
from tests.cli.recorded_cluster import METADATA, RecordedCluster, states

OFFSET = 209
"""In the log of static-4.3.1: four topics and more, all brokers alive."""


def run(*words: str, cluster: RecordedCluster | None = None) -> int:
    cluster = cluster or RecordedCluster("static-4.3.1", OFFSET)
    return topics.run(["--bootstrap-server", "h:1", *words], cluster.opened)


def test_an_expression_that_is_none_is_refused() -> None:
    cluster = RecordedCluster("static-4.3.1", OFFSET)
    options = topics._parse(["--bootstrap-server", "h:1", "--list", "--topic", "(("])
    with pytest.raises(ClusterError, match="not a regular expression"):
        topics.perform(cluster, options)


def test_unknown_command_is_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic"]) == 2
    assert "unknown command 'topic'" in capsys.readouterr().err


def test_paging_of_partitions_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--describe") == 0
    whole = capsys.readouterr().out
    assert run("--describe", "--partition-size-limit-per-response", "1") == 0
    assert capsys.readouterr().out == whole


def test_json_has_what_the_lines_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--describe", "--topic", "orders", "--json") == 0
    (topic,) = json.loads(capsys.readouterr().out)["topics"]
    assert topic["name"] == "orders"
    assert len(topic["partitions"]) == 6
    assert topic["partitions"][0]["replicas"]
    assert run("--list", "--json") == 0
    assert "orders" in json.loads(capsys.readouterr().out)["topics"]


def test_several_topics_are_altered_by_one_expression(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--alter", "--topic", "s-rd-.*", "--partitions", "9", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"altered": ["s-rd-one", "s-rd-two"]}


def test_a_topic_deleted_while_it_is_altered(capsys: pytest.CaptureFixture[str]) -> None:
    class Cluster(RecordedCluster):
        def call(self, api_key: int, body: Any, node: int | None = None) -> Any:
            answer = super().call(api_key, body, node)
            if api_key == METADATA:
                self.image = states("static-4.3.1")[0]
            return answer

    cluster = Cluster("static-4.3.1", OFFSET)
    words = ["--alter", "--topic", "s-rd-one", "--partitions", "2", "--replica-assignment", "1,2"]
    assert run(*words, cluster=cluster) == 1
    assert "does not host this topic-partition" in capsys.readouterr().out


def test_alter_of_an_internal_topic_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--alter", "--topic", "__consumer_offsets", "--partitions", "9") == 1
    assert "__consumer_offsets cannot be changed" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["at-min-isr-partitions", "under-min-isr-partitions"])
def test_min_isr_filters_choose_by_the_topic_s_config(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--describe") == 0
    expected, minimum = [], 0
    for line in capsys.readouterr().out.splitlines():
        if line.startswith("Topic: "):
            minimum = int(line.partition("min.insync.replicas=")[2].partition(",")[0] or 1)
            continue
        isr = [
            broker
            for broker in line.partition("\tIsr: ")[2].partition("\t")[0].split(",")
            if broker
        ]
        if (len(isr) == minimum) if flag.startswith("at") else (len(isr) < minimum):
            expected.append(line)
    assert run("--describe", f"--{flag}") == 0
    assert capsys.readouterr().out.splitlines() == expected


def test_a_topic_by_its_id_has_no_eligible_leaders(capsys: pytest.CaptureFixture[str]) -> None:
    """As Kafka 4.3.1's own tool printed it against a node of this software."""
    assert run("--describe", "--topic", "orders", "--json") == 0
    (topic,) = json.loads(capsys.readouterr().out)["topics"]
    assert run("--describe", "--topic-id", topic["topic_id"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith(f"Topic: orders\tTopicId: {topic['topic_id']}")
    assert len(lines) == 6
    assert all(line.endswith("\tElr: N/A\tLastKnownElr: N/A") for line in lines)
