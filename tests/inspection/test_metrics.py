"""Every metric that the documentation names is there, and the values are those of the node."""

import math
import re
from pathlib import Path

from inspection.inspected import Inspected
from inspection.metrics import ACTIVE, NodeMetrics, camel_case
from inspection.recorder import Recorder
from tests.inspection.conftest import ready_world
from tests.inspection.test_recorder import core_of
from tests.kernel.harness import World

MS = 1_000_000
DOCUMENT = Path(__file__).parents[2] / "docs" / "running.md"
DOCUMENTED = re.compile(r"`(kafka_[a-z_]+)(?:\{[a-zA-Z]+\})?`")


def scraped(recorder: Recorder | None = None) -> dict[str, float]:
    """Values by name and labels, of the leader of three combined nodes."""
    world = ready_world()
    leader = world.active()
    assert leader is not None
    node = Inspected(world.kernel(leader), world._now, recorder=recorder)
    lines = NodeMetrics(node).text().decode().splitlines()
    samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in samples}


def test_the_documented_metrics_and_no_others_of_kafkas() -> None:
    section = DOCUMENT.read_text(encoding="utf-8").split("## Metrics")[1].split("\n## ")[0]
    served = {name.partition("{")[0] for name in scraped() if name.startswith("kafka_")}
    assert set(DOCUMENTED.findall(section)) == served


def test_recorded_times_in_kafkas_units() -> None:
    recorder = Recorder(0)
    recorder.taken([0, 1 * MS, 2 * MS], 3 * MS)
    recorder.worked(core_of(World(1)), 3 * MS, 7 * MS)
    values = scraped(recorder)
    manager = "kafka_controller_controllereventmanager_"
    assert values[manager + "eventqueuetimems_count"] == 3
    assert values[manager + 'eventqueuetimems{quantile="0.50"}'] == 2
    assert values[manager + 'eventqueuetimems{quantile="0.999"}'] == 3
    assert values[manager + "eventqueueprocessingtimems_count"] == 1
    assert values[manager + 'eventqueueprocessingtimems{quantile="0.99"}'] == 4
    assert values["kafka_controller_kafkacontroller_eventqueueoperationsstartedcount"] == 3
    idle = values["kafka_server_raft_metrics_poll_idle_ratio_avg"]
    assert 0 < idle <= 1
    assert values[manager + "avgidleratio"] == idle


def test_recorded_commits_and_elections_in_kafkas_units() -> None:
    world_now_ns = ready_world()._now().monotonic_ms * MS
    recorder = Recorder(world_now_ns)
    recorder.commit_ns.add(2 * MS, world_now_ns)
    recorder.commit_ns.add(4 * MS, world_now_ns)
    recorder.election_ns.add(9 * MS, world_now_ns)
    recorder.appended_records.add(600, world_now_ns)
    recorder.leaders_seen = 5
    values = scraped(recorder)
    raft = "kafka_server_raft_metrics_"
    assert values[raft + "commit_latency_avg"] == 3
    assert values[raft + "commit_latency_max"] == 4
    assert values[raft + "election_latency_avg"] == 9
    assert values[raft + "election_latency_max"] == 9
    assert values[raft + "append_records_rate"] == 20
    assert values[raft + "fetch_records_rate"] == 0
    assert values["kafka_controller_kafkacontroller_newactivecontrollerscount"] == 5


def test_nothing_measured_is_not_a_number_as_with_kafka() -> None:
    values = scraped()
    assert math.isnan(values["kafka_server_raft_metrics_commit_latency_avg"])
    assert math.isnan(values["kafka_server_raft_metrics_election_latency_max"])


def test_gauges_of_the_image_and_of_the_replica() -> None:
    values = scraped()
    controller = "kafka_controller_kafkacontroller_"
    assert values[controller + 'brokerregistrationstate{broker="1"}'] == ACTIVE
    assert values[controller + "controlledshutdownbrokercount"] == 0
    assert values[controller + "activebrokercount"] == 3
    assert values["kafka_server_raft_metrics_number_of_voters"] == 3
    assert values["kafka_server_raft_metrics_number_of_observers"] == 0
    loader = "kafka_server_metadataloader_"
    level = values[loader + "currentmetadataversion"]
    assert level > 0
    assert values[loader + 'finalizedlevel{featureName="metadataVersion"}'] == level
    assert (
        values[loader + "currentcontrollerid"]
        == (values["kafka_server_raft_metrics_current_leader"])
    )


def test_features_are_named_as_kafka_names_them() -> None:
    assert camel_case("metadata.version") == "metadataVersion"
    assert camel_case("eligible.leader.replicas.version") == "eligibleLeaderReplicasVersion"
    assert camel_case("one") == "one"
