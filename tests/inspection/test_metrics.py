"""Every metric that the documentation names is there, and the values are those of the node."""

import math
import re
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from broker.cleaning.cleaner_counts import CleanerCounts
from broker.clients.client_quotas import ClientRate
from broker.clients.request_metrics import (
    FETCH_FOLLOWER,
    VERIFICATION,
    KindCounts,
    RequestTimes,
)
from broker.effects import SendParts
from broker.largest_logs import LogSize, LogSizes
from broker.records_counts import (
    DelayedCount,
    QuotaRates,
    RecordsCounts,
    SessionCount,
    TopicCounts,
    TopicsCounted,
)
from inspection.metrics import ACTIVE, NodeMetrics, camel_case
from inspection.recorder import Recorder
from inspection.running_node import RunningNode
from metadata.features import CONTROLLER_FEATURES
from network.served_requests import ServedRequests
from replication.counters import Counters
from tests.broker.test_broker import list_offsets
from tests.inspection.conftest import ready_world
from tests.inspection.records import Beside
from tests.inspection.test_api import write_snapshot
from tests.inspection.test_coordinator_metrics import GROUPS, TRANSACTIONS
from tests.inspection.test_recorder import core_of
from tests.kernel.harness import World
from wire.api_keys import FETCH, LIST_OFFSETS, PRODUCE, VOTE

MS = 1_000_000
DOCUMENT = Path(__file__).parents[2] / "docs" / "running.md"
OURS = ("kafka_", "kraftline_")
DOCUMENTED = re.compile(r"`((?:kafka|kraftline)_[a-z_F]+)(?:\{[a-zA-Z,]+\})?`")

QUOTAS = QuotaRates(
    clients=(
        ClientRate("producer_byte_rate", "u", "", 61.0, None),
        ClientRate("consumer_byte_rate", "", "c", 62.0, 63.0),
        ClientRate("request_percentage", "u", "c", 64.0, 65.0),
    ),
    exempt_percent=66.0,
    leader=67.0,
    follower=68.0,
)


def scraped(recorder: Recorder | None = None) -> dict[str, float]:
    """Values by name and labels, of the leader of three combined nodes."""
    world = ready_world()
    leader = world.active()
    assert leader is not None
    kernel = world.kernel(leader)
    counts = served_counts(kernel)
    node = RunningNode(kernel, world._now, recorder=recorder)
    node.expired = {"PLAINTEXT": 1}
    return scraped_of(node, counts)


def served_counts(kernel: Any) -> RecordsCounts:
    """Counts of a broker with one connection, which asked for offsets, and with rates of quotas."""
    driven = Beside(kernel).driven
    driven.connect()
    (answer,) = driven.request(LIST_OFFSETS, 7, list_offsets())
    assert isinstance(answer, SendParts)
    assert answer.sent is not None
    answer.sent(0, 0)
    return msgspec.structs.replace(
        driven.broker.counts(),
        quotas=QUOTAS,
        longest_turn_ns=1_500_000.0,
        longest_turn_ever_ns=2_500_000,
        topics=TopicsCounted((TopicCounts("t", Counters(*range(1, 23))),)),
    )


def scraped_of(node: RunningNode, counts: RecordsCounts | None = None) -> dict[str, float]:
    """Values by name and labels, of one node."""
    lines = NodeMetrics(node).text(counts).decode().splitlines()
    samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in samples}


def test_the_documented_metrics_and_no_others_of_kafkas() -> None:
    section = DOCUMENT.read_text(encoding="utf-8").split("## Metrics")[1].split("\n## ")[0]
    served = {name.partition("{")[0] for name in scraped() if name.startswith(OURS)}
    named = set(DOCUMENTED.findall(section))
    of_features = {name for name in named if "_F_" in name}
    features = [feature.replace(".", "_") for feature in CONTROLLER_FEATURES]
    assert (len(of_features), len(features)) == (2, len(CONTROLLER_FEATURES))
    named |= {name.replace("_F_", f"_{one}_") for name in of_features for one in features}
    assert named - of_features == served


def test_recorded_times_in_kafkas_units() -> None:
    recorder = Recorder(0)
    recorder.taken([0, 1 * MS, 2 * MS], 3 * MS)
    recorder.worked(core_of(World(1)), 3 * MS, 7 * MS)
    values = scraped(recorder)
    assert values["kraftline_main_turn_max_ms"] == 4
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


def test_applied_batches_in_kafkas_units() -> None:
    recorder = Recorder(0)
    for records, took_us in ((1, 10), (2, 30), (9, 500)):
        recorder.applied(records, took_us * 1_000)
    values = scraped(recorder)
    listener = "kafka_server_brokermetadatalistener_metadatabatch"
    assert values[listener + "sizes_count"] == values[listener + "processingtimeus_count"] == 3
    assert values[listener + 'sizes{quantile="0.50"}'] == 2
    assert values[listener + 'processingtimeus{quantile="0.50"}'] == 30
    assert values[listener + 'processingtimeus{quantile="0.99"}'] == 500


def test_what_the_controller_counts() -> None:
    world = ready_world()
    leader = world.active()
    assert leader is not None
    kernel = world.kernel(leader)
    controller = kernel.state.controller
    assert controller is not None
    controller.requests_timed_out, controller.heartbeats_timed_out = 7, 2
    kernel.state.snapshots_loaded = 4
    values = scraped_of(RunningNode(kernel, world._now))
    prefix = "kafka_controller_kafkacontroller_"
    assert values[prefix + "eventqueueoperationstimedoutcount"] == 7
    assert values[prefix + "timedoutbrokerheartbeatcount"] == 2
    assert values["kafka_server_metadataloader_handleloadsnapshotcount"] == 4
    name = prefix + "timesincelastheartbeatreceivedms"
    ages_ms = {key: value for key, value in values.items() if key.startswith(name)}
    assert sorted(ages_ms) == [f'{name}{{broker="{i}"}}' for i in (1, 2, 3)]
    assert all(0 <= age_ms <= 9_000 for age_ms in ages_ms.values())
    standby = next(i for i in world.alive if i != leader)
    others = scraped_of(RunningNode(world.kernel(standby), world._now))
    assert not [key for key in others if key.startswith(name)]


def test_the_bytes_of_the_newest_snapshot() -> None:
    world = ready_world()
    kernel, name = world.kernel(1), "kafka_server_snapshotemitter_latestsnapshotgeneratedbytes"
    node = RunningNode(kernel, world._now)
    assert scraped_of(node)[name] == 0
    write_snapshot(kernel)
    (snapshot_id,) = node.snapshot_ids()
    assert scraped_of(node)[name] == len(node.read_snapshot(snapshot_id)) > 0


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


def test_counts_of_records_under_kafkas_names() -> None:
    counters = Counters(*range(1, 23))
    counts = records_counts(counters)
    world = ready_world()
    values = scraped_of(RunningNode(world.kernel(1), world._now), counts)
    topics, manager = "kafka_server_brokertopicmetrics_", "kafka_server_replicamanager_"
    for name, value in (
        (topics + "messagesin_total", counters.messages_in),
        (topics + "bytesin_total", counters.bytes_in),
        (topics + "bytesout_total", counters.bytes_out),
        (topics + "replicationbytesin_total", counters.replication_bytes_in),
        (topics + "replicationbytesout_total", counters.replication_bytes_out),
        (topics + "totalproducerequests_total", counters.produce_requests),
        (topics + "totalfetchrequests_total", counters.fetch_requests),
        (topics + "failedproducerequests_total", counters.failed_produce_requests),
        (topics + "failedfetchrequests_total", counters.failed_fetch_requests),
        (manager + "isrshrinks_total", counters.isr_shrinks),
        (manager + "isrexpands_total", counters.isr_expands),
        (manager + "failedisrupdates_total", counters.failed_isr_updates),
        ('kafka_network_requestmetrics_requests_total{request="Produce",version="9"}', 21),
        ('kafka_server_socketservermetrics_connection_count{listener="PLAINTEXT"}', 23),
        ('kafka_server_socketservermetrics_connection_count{listener="OTHER"}', 0),
        ('kafka_server_socketservermetrics_connection_creation_total{listener="OTHER"}', 24),
        ('kafka_server_socketservermetrics_connection_close_total{listener="OTHER"}', 24),
        ('kafka_server_socketservermetrics_connection_close_total{listener="PLAINTEXT"}', 100),
        (manager + "offlinereplicacount", 26),
        ("kafka_log_logmanager_offlinelogdirectorycount", 2),
        (delayed("purgatorysize", "Produce"), 28),
        (delayed("numdelayedoperations", "Produce"), 29),
        (delayed("purgatorysize", "Fetch"), 30),
        (delayed("numdelayedoperations", "Fetch"), 31),
        (delayed("purgatorysize", "DeleteRecords"), 32),
        (delayed("numdelayedoperations", "DeleteRecords"), 33),
        ('kafka_server_replicafetchermanager_maxlag{clientId="Replica"}', 34),
        ('kafka_server_replicafetchermanager_failedpartitionscount{clientId="Replica"}', 35),
        (quota("byte_rate", "Produce", "u", ""), 61),
        (quota("byte_rate", "Fetch", "", "c"), 62),
        (quota("throttle_time", "Fetch", "", "c"), 63),
        (quota("request_time", "Request", "u", "c"), 64),
        (quota("throttle_time", "Request", "u", "c"), 65),
        ("kafka_server_request_exempt_request_time", 66),
        ("kafka_server_leaderreplication_byte_rate", 67),
        ("kafka_server_followerreplication_byte_rate", 68),
        ('kafka_log_log_size{partition="1",topic="t"}', 36),
        ('kafka_log_log_logstartoffset{partition="1",topic="t"}', 37),
        ('kafka_log_log_logendoffset{partition="1",topic="t"}', 38),
        ('kafka_log_log_numlogsegments{partition="1",topic="t"}', 39),
        ('kafka_log_log_retentionsizeinpercent{partition="1",topic="t"}', 40),
        ("kraftline_logs_left_out", 82),
        (topics + 'bytesin_total{topic="u"}', 83),
        (topics + 'bytesout_total{topic="t"}', 84),
        ("kraftline_topics_left_out", 85),
        (topics + "reassignmentbytesin_total", counters.reassignment_bytes_in),
        (topics + "reassignmentbytesout_total", counters.reassignment_bytes_out),
    ):
        assert values[name] == value, name
    assert quota("throttle_time", "Produce", "u", "") not in values
    assert topics + 'bytesin_total{topic="t"}' not in values, "nothing of it"
    many = msgspec.structs.replace(counts, quotas=QuotaRates())
    values = scraped_of(RunningNode(world.kernel(1), world._now), many)
    absent = ("kafka_server_quota_", "kafka_server_request_exempt")
    assert not [name for name in values if name.startswith(absent) or "replication_byte" in name]


def quota(name: str, resource: str, user: str, client_id: str) -> str:
    labels = f'clientId="{client_id}",resource="{resource}",user="{user}"'
    return f"kafka_server_quota_{name}{{{labels}}}"


def records_counts(counters: Counters) -> RecordsCounts:
    """Numbers of which each is another."""
    return RecordsCounts(
        counters=counters,
        requests={
            (PRODUCE, 9): 21,
            (FETCH, 17): 22,
            (FETCH_FOLLOWER, 17): 4,
            (VERIFICATION, 5): 6,
        },
        request_times={
            PRODUCE: KindCounts(9, (times(41), times(42))),
            FETCH: KindCounts(2, (times(43),)),
            FETCH_FOLLOWER: KindCounts(3, (times(44),)),
        },
        request_errors={(PRODUCE, 0): 51, (FETCH, 3): 52},
        quotas=QUOTAS,
        connections={"PLAINTEXT": 23},
        accepted={"PLAINTEXT": 123, "OTHER": 24},
        queued_bytes=25,
        queued_bytes_max=125,
        depleted_ns=1_500_000,
        longest_turn_ns=2_500_000.0,
        longest_turn_ever_ns=3_500_000,
        queued_requests=61,
        sessions=SessionCount(62, 63, 64),
        offline_replicas=26,
        failed_log_dirs=frozenset({"/a", "/b"}),
        remaining_logs={"/a": 46, "/b": 0},
        remaining_segments={("/a", 0): 47, ("/a", 1): 0},
        produce=DelayedCount(28, 29),
        fetch=DelayedCount(30, 31),
        delete_records=DelayedCount(32, 33),
        replica_lag_max=34,
        failed_partitions=35,
        late_transactions=65,
        cleaner=CleanerCounts(
            dead_threads=71,
            died=72,
            rounds=73,
            dirty_percent_max=74,
            buffer_utilization_percent_max=75,
            recopy_percent=76,
            clean_time_seconds_max=77,
            compaction_delay_seconds_max=78,
            since_last_run_ms=79,
            uncleanable={"/a": (80, 81), "/b": (0, 0)},
        ),
        groups=GROUPS,
        transactions=TRANSACTIONS,
        logs=LogSizes(
            logs=(LogSize("t", 1, 36, 37, 38, 39, 40), LogSize("u", 0, 1, 1, 1, 1)),
            left_out=82,
            producer_ids=45,
        ),
        topics=TopicsCounted(
            (TopicCounts("u", Counters(bytes_in=83)), TopicCounts("t", Counters(bytes_out=84))), 85
        ),
    )


def test_refusals_waits_and_sessions_under_kafkas_names() -> None:
    counters = Counters(*range(1, 23))
    world = ready_world()
    values = scraped_of(RunningNode(world.kernel(1), world._now), records_counts(counters))
    topics = "kafka_server_brokertopicmetrics_"
    expired = "kafka_server_delayedfetchmetrics_expires_total"
    sessions = "kafka_server_fetchsessioncache_"
    for name, value in (
        (topics + "bytesrejected_total", counters.bytes_rejected),
        (topics + "nokeycompactedtopicrecords_total", counters.no_key_records),
        (topics + "invalidmessagecrcrecords_total", counters.invalid_crcs),
        (
            topics + "invalidoffsetorsequencerecords_total",
            counters.invalid_offsets_or_sequences,
        ),
        ("kafka_server_delayedproducemetrics_expires_total", counters.expired_produces),
        (expired + '{fetcherType="consumer"}', counters.expired_consumer_fetches),
        (expired + '{fetcherType="follower"}', counters.expired_follower_fetches),
        ("kafka_network_socketserver_memorypoolused", 25),
        ("kafka_network_socketserver_memorypoolavailable", 100),
        ("kafka_server_socketservermetrics_memorypooldepletedtimetotal", 1.5),
        ("kafka_network_requestchannel_requestqueuesize", 61),
        ("kraftline_records_turn_cpu_max_ms", 2.5),
        ("kraftline_records_turn_cpu_max_ever_ms", 3.5),
        (sessions + "numincrementalfetchsessions", 62),
        (sessions + "numincrementalfetchpartitionscached", 63),
        (sessions + "incrementalfetchsessionevictions_total", 64),
        ("kafka_server_replicamanager_produceridcount", 45),
        ("kafka_server_replicamanager_partitionswithlatetransactionscount", 65),
        ('kafka_log_logmanager_remaininglogstorecover{dir="/a"}', 46),
        ('kafka_log_logmanager_remaininglogstorecover{dir="/b"}', 0),
        ('kafka_log_logmanager_remainingsegmentstorecover{dir="/a",threadnum="0"}', 47),
        ('kafka_log_logmanager_remainingsegmentstorecover{dir="/a",threadnum="1"}', 0),
    ):
        assert values[name] == value, name


def test_the_log_cleaner_under_kafkas_names() -> None:
    world = ready_world()
    counts = records_counts(Counters())
    values = scraped_of(RunningNode(world.kernel(1), world._now), counts)
    cleaner, manager = "kafka_log_logcleaner_", "kafka_log_logcleanermanager_"
    for name, value in (
        (cleaner + "deadthreadcount", 71),
        ("kraftline_cleaner_deaths_total", 72),
        ("kraftline_cleaner_rounds_total", 73),
        (manager + "max_dirty_percent", 74),
        (cleaner + "max_buffer_utilization_percent", 75),
        (cleaner + "cleaner_recopy_percent", 76),
        (cleaner + "max_clean_time_secs", 77),
        (cleaner + "max_compaction_delay_secs", 78),
        (manager + "time_since_last_run_ms", 79),
        (manager + 'uncleanable_partitions_count{logDirectory="/a"}', 80),
        (manager + 'uncleanable_bytes{logDirectory="/a"}', 81),
        (manager + 'uncleanable_partitions_count{logDirectory="/b"}', 0),
    ):
        assert values[name] == value, name


def test_a_large_request_alone_leaves_nothing_available() -> None:
    world = ready_world()
    counts = msgspec.structs.replace(records_counts(Counters()), queued_bytes=126)
    values = scraped_of(RunningNode(world.kernel(1), world._now), counts)
    assert values["kafka_network_socketserver_memorypoolavailable"] == 0


def test_requests_under_kafkas_names() -> None:
    world = ready_world()
    counts = records_counts(Counters())
    node = RunningNode(world.kernel(1), world._now)
    node.served = served()
    values = scraped_of(node, counts)
    for name, value in (
        (request_metric("requests_total", "FetchConsumer", version="17"), 22),
        (request_metric("requests_total", "FetchFollower", version="17"), 4 + 3),
        (request_metric("requests_total", "Fetch", version="17"), 22 + 4 + 3),
        (request_metric("requests_total", "AddPartitionsToTxnVerification", version="5"), 6),
        (request_metric("requests_total", "Vote", version="2"), 1),
        (request_metric("errors_total", "Vote", error="INVALID_REQUEST"), 8),
        (request_metric("errors_total", "Produce", error="NONE"), 51 + 9),
        (request_metric("errors_total", "Fetch", error="UNKNOWN_TOPIC_OR_PARTITION"), 52),
        (request_metric("totaltimems_count", "Produce"), 9),
        (request_metric("requestqueuetimems_count", "Fetch"), 5 + 3),
        (request_metric("requestqueuetimems_count", "FetchConsumer"), 2),
        (request_metric("requestqueuetimems_count", "FetchFollower"), 3 + 3),
        (request_metric("requestqueuetimems", "Produce", quantile="0.50"), 41.5),
        (request_metric("requestqueuetimems", "Produce", quantile="0.999"), 42),
        (request_metric("requestqueuetimems", "FetchConsumer", quantile="0.50"), 43),
        (request_metric("requestqueuetimems", "FetchFollower", quantile="0.50"), (44 + 70) / 2),
        (request_metric("requestqueuetimems", "Fetch", quantile="0.50"), 44),
        (request_metric("responsesendtimems", "FetchFollower", quantile="0.999"), 444),
        (request_metric("requestqueuetimems", "Vote", quantile="0.50"), 1),
        (request_metric("localtimems", "Vote", quantile="0.50"), 2),
        (request_metric("remotetimems", "Vote", quantile="0.50"), 3),
        (request_metric("totaltimems", "Vote", quantile="0.50"), 6),
        (request_metric("throttletimems", "Vote", quantile="0.50"), 0),
        (request_metric("requestbytes", "Vote", quantile="0.50"), 80),
        (request_metric("localtimems", "FetchConsumer", quantile="0.50"), 143),
        (request_metric("remotetimems", "FetchConsumer", quantile="0.50"), 243),
        (request_metric("responsequeuetimems", "FetchConsumer", quantile="0.50"), 343),
        (request_metric("responsesendtimems", "FetchConsumer", quantile="0.50"), 443),
        (request_metric("totaltimems", "FetchConsumer", quantile="0.50"), 5 * 43 + 1_000),
        (request_metric("throttletimems", "FetchConsumer", quantile="0.50"), 543),
        (request_metric("requestbytes", "FetchConsumer", quantile="0.50"), 643),
    ):
        assert values[name] == value, name
    for name in ("responsequeuetimems", "responsesendtimems"):
        assert request_metric(name, "Vote", quantile="0.50") not in values
        assert request_metric(f"{name}_count", "Vote") not in values


def served() -> ServedRequests:
    """Requests of a controller; their times are ms."""
    found = ServedRequests()
    found.requests = {(VOTE, 2): 1, (FETCH, 17): 3}
    found.errors = {(VOTE, 42): 8, (PRODUCE, 0): 9}
    found.rows = {
        VOTE: deque([(0, 1 * MS, 3 * MS, 6 * MS, 80)]),
        FETCH: deque([(0, 70 * MS, 70 * MS, 70 * MS, 90)]),
    }
    return found


def test_a_controller_alone_tells_of_its_requests_and_a_silent_broker_of_none() -> None:
    world = ready_world()
    node = RunningNode(world.kernel(1), world._now)
    assert not [name for name in scraped_of(node) if "requestmetrics" in name]
    node.config = msgspec.structs.replace(node.config, is_broker=False)
    node.served = served()
    values = scraped_of(node)
    assert values[request_metric("requests_total", "Vote", version="2")] == 1


def times(number: int) -> RequestTimes:
    """Every time and the size are others."""
    ms = [number + add for add in range(0, 700, 100)]
    return RequestTimes(*(each * 1_000_000 for each in ms[:5]), *ms[5:])


def request_metric(name: str, request: str, **labels: str) -> str:
    pairs = sorted({**labels, "request": request}.items())
    found = ",".join(f'{key}="{value}"' for key, value in pairs)
    return f"kafka_network_requestmetrics_{name}{{{found}}}"


def delayed(name: str, kind: str) -> str:
    return f'kafka_server_delayedoperationpurgatory_{name}{{delayedOperation="{kind}"}}'
