"""Idle shares of both threads, flushes, and counters that never rise, under Kafka's names."""

import msgspec

from broker.replicas.log_flushes import FlushCounts
from inspection.recorder import Recorder
from inspection.records_metrics import NEVER
from inspection.running_node import RunningNode
from replication.counters import Counters
from tests.inspection.conftest import ready_world
from tests.inspection.test_metrics import MS, records_counts, scraped, scraped_of
from tests.inspection.test_recorder import core_of
from tests.kernel.harness import World

HANDLERS = "kafka_server_kafkarequesthandlerpool_"


def test_what_never_happens_is_told_as_zero() -> None:
    values = scraped()
    assert [values[f"kafka_server_brokertopicmetrics_{name}_total"] for name in NEVER] == [0] * 3


def test_idle_shares_under_kafkas_names() -> None:
    world, recorder = ready_world(), Recorder(0)
    recorder.worked(core_of(World(1)), 3 * MS, 7 * MS)
    counts = records_counts(Counters())
    counts = msgspec.structs.replace(counts, idle_of_turns=0.75, idle_of_cpu=0.625)
    node = RunningNode(world.kernel(1), world._now, recorder=recorder)
    values = scraped_of(node, counts)
    for name, value in (
        (HANDLERS + "requesthandleravgidle_percent", 0.75),
        (HANDLERS + "brokerrequesthandleravgidle_percent", 0.75),
        ("kafka_network_socketserver_networkprocessoravgidlepercent", 0.625),
        (
            HANDLERS + "controllerrequesthandleravgidle_percent",
            values["kafka_server_raft_metrics_poll_idle_ratio_avg"],
        ),
    ):
        assert values[name] == value, name
    assert 0 < values[HANDLERS + "controllerrequesthandleravgidle_percent"] < 1


def test_times_of_flushes_under_kafkas_names() -> None:
    counts = msgspec.structs.replace(records_counts(Counters()), flushes=FlushCounts(9, (3, 1, 2)))
    world = ready_world()
    values = scraped_of(RunningNode(world.kernel(1), world._now), counts)
    name = "kafka_log_logflushstats_logflushrateandtimems"
    assert values[f"{name}_count"] == 9
    assert values[f'{name}{{quantile="0.50"}}'] == 2
    assert values[f'{name}{{quantile="0.999"}}'] == 3
