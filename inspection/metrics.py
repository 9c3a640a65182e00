"""Prometheus metrics under the names that the JMX exporter gives to Kafka's.

Names: prometheus/jmx_exporter, examples/kafka-kraft-3_0_0.yml with `lowercaseOutputName`, applied
to the MBeans of Kafka 4.3 (kafka.controller:type=KafkaController, kafka.server:type=raft-metrics,
broker-metadata-metrics, MetadataLoader, ReplicaManager), so that dashboards made for Kafka show
this node. Table of all metrics, and of Kafka's that are missing here: docs/running.md.
"""

import re
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from broker.records_counts import RecordsCounts
from inspection.node_metrics import connection_metrics, directory_metrics, disk_metrics
from inspection.partition_counts import PartitionCounts
from inspection.recorder import NS_PER_MS
from inspection.records_metrics import MANAGER, records_metrics
from inspection.request_metrics import request_metrics
from inspection.running_node import RunningNode
from inspection.timings import CONTROLLER, RAFT, broker_timings, controller_timings, raft_timings
from metadata.features import supported_features
from metadata.image import Broker
from raft.elections.leader_loss import Cause
from wire.ids import node_number

ROLES = (
    "leader",
    "follower",
    "candidate",
    "prospective",
    "resigned",
    "unattached",
    "observer",
)


FENCED: Final = 10
CONTROLLED_SHUTDOWN: Final = 20
ACTIVE: Final = 30


class NodeMetrics:
    """Collector that reads the node when it is scraped; costs nothing in between."""

    def __init__(self, node: RunningNode, counts: PartitionCounts | None = None) -> None:
        self._node = node
        self._core = node.core
        self._state = node.state
        self._node_controller = node.state.controller
        self._recorder = node.recorder
        self._counted_elections = node.elections_counted
        self._seen_elections = node.seen_elections
        self._counts = PartitionCounts(node) if counts is None else counts
        self._records: RecordsCounts | None = None
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(self)

    def text(self, records: RecordsCounts | None = None) -> bytes:
        """Return all metrics in the exposition format; those of the records if they are given."""
        self._records = records
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, as prometheus_client requires."""
        now_ns = self._node.now().monotonic_ms * NS_PER_MS
        if self._node.config.is_controller:
            yield from self._controller()
            yield self._registrations()
            yield from self._requests()
            yield from self._elections()
            yield from controller_timings(self._recorder, now_ns)
            yield from disk_metrics("kafka_server_controllerserver_")
        yield from self._raft()
        yield from self._causes()
        yield from raft_timings(self._recorder, now_ns)
        yield from self._loader(now_ns)
        yield from self._features()
        if self._node.config.is_broker:
            yield from self._broker()
            yield from broker_timings(self._recorder)
            if self._records is not None:
                yield from records_metrics(self._records)
                yield from directory_metrics(self._node, self._records.failed_log_dirs)
            yield from disk_metrics("kafka_server_kafkaserver_")
        if self._records is not None or not self._node.config.is_broker:
            yield from request_metrics(self._records, self._node.served)
        yield from connection_metrics(self._node.expired)

    def _controller(self) -> Iterator[Metric]:
        """Metrics of the controller: counts of brokers, topics and partitions, and its offsets."""
        node, image = self._node, self._node.image
        counts = self._counts.newest()
        states = [registration_state(broker) for broker in image.brokers.values()]
        fenced = states.count(FENCED)
        core = self._core
        for name, value, text in (
            ("activecontrollercount", int(self._state.is_active), "1 on the active one"),
            ("activebrokercount", len(image.brokers) - fenced, "registered and unfenced"),
            ("fencedbrokercount", fenced, "registered and fenced"),
            (
                "controlledshutdownbrokercount",
                states.count(CONTROLLED_SHUTDOWN),
                "unfenced and about to leave",
            ),
            ("globaltopiccount", len(image.topics), "topics of the cluster"),
            ("globalpartitioncount", counts.partitions, "partitions of the cluster"),
            ("offlinepartitionscount", counts.offline, "partitions without leader"),
            (
                "preferredreplicaimbalancecount",
                counts.imbalanced,
                "partitions not led by their first replica",
            ),
            ("lastappliedrecordoffset", node.committed_end - 1, "of the image"),
            (
                "lastcommittedrecordoffset",
                (core.high_watermark or 0) - 1,
                "below the high watermark",
            ),
            ("lastappliedrecordtimestamp", image.provenance.timestamp_ms, "append time, ms"),
            ("lastappliedrecordlagms", self._lag_ms(), "age of the last applied record, ms"),
            ("metadataerrorcount", 0, "an error in the metadata stops this node"),
            ("ignoredstaticvoters", self._ignored_static_voters(), "1: the log names the voters"),
        ):
            yield GaugeMetricFamily(CONTROLLER + name, text, float(value))

    def _ignored_static_voters(self) -> bool:
        """True if `controller.quorum.voters` is set, and the voters are records all the same."""
        return bool(self._node.config.voters) and self._core.kraft_version > 0

    def _elections(self) -> Iterator[Metric]:
        elections, prefix = self._counted_elections, "kafka_controller_controllerstats_"
        for name, value, text in (
            ("uncleanleaderelections", elections.unclean, "leaders from outside ISR and ELR"),
            (
                "electionfromeligibleleaderreplicas",
                elections.from_elr,
                "leaders from the eligible leader replicas",
            ),
        ):
            yield CounterMetricFamily(prefix + name, text, float(value))

    def _registrations(self) -> Metric:
        states = GaugeMetricFamily(
            CONTROLLER + "brokerregistrationstate",
            "10 fenced, 20 in controlled shutdown, 30 active",
            labels=["broker"],
        )
        for broker in self._node.image.brokers.values():
            states.add_metric([str(broker.id)], float(registration_state(broker)))
        return states

    def _requests(self) -> Iterator[Metric]:
        """Yield counts of timed-out requests and ages of the last heartbeats."""
        controller = self._node_controller
        assert controller is not None, "asked of controllers only"
        for name, value, text in (
            (
                "eventqueueoperationstimedoutcount",
                controller.requests_timed_out,
                "requests answered REQUEST_TIMED_OUT since the start",
            ),
            (
                "timedoutbrokerheartbeatcount",
                controller.heartbeats_timed_out,
                "heartbeats among them",
            ),
        ):
            yield GaugeMetricFamily(CONTROLLER + name, text, float(value))
        ages = GaugeMetricFamily(
            CONTROLLER + "timesincelastheartbeatreceivedms",
            "of a registered broker, at most its session; on the active controller, ms",
            labels=["broker"],
        )
        ages_ms = controller.heartbeat_ages_ms(self._node.now().monotonic_ms)
        for broker_id, age_ms in sorted(ages_ms.items()):
            ages.add_metric([str(broker_id)], float(age_ms))
        yield ages

    def _features(self) -> Iterator[Metric]:
        """Yield NodeMetrics (KIP-1160), whose tag the exporter's rules make part of the name."""
        supported = supported_features(is_controller=self._node.config.is_controller)
        for feature, levels in sorted(supported.items()):
            name = "kafka_server_node_metrics_feature_name_" + re.sub(r"[^a-z0-9]+", "_", feature)
            for end, level in zip(("minimum", "maximum"), levels, strict=True):
                text = f"{end} level of {feature} that this node supports"
                yield GaugeMetricFamily(f"{name}_{end}_supported_level", text, float(level))

    def _lag_ms(self) -> int:
        return max(0, self._node.now().wall_ms - self._node.image.provenance.timestamp_ms)

    def _raft(self) -> Iterator[Metric]:
        """Metrics of the replica of the metadata log."""
        core = self._core
        voted = getattr(core.role, "voted_key", None)
        voted_id = None if voted is None else voted.id
        for name, value, text in (
            ("current_leader", node_number(core.leader.leader_id), "-1 when unknown"),
            ("current_epoch", core.epoch, "the quorum epoch"),
            ("current_vote", node_number(voted_id), "whom it voted for, -1 nobody"),
            ("high_watermark", core.high_watermark or 0, "offset"),
            ("log_end_offset", core.log_end_offset, "offset"),
            ("log_end_epoch", core.last_epoch, "epoch of the last record"),
            ("log_start_offset", core.log_start_offset, "offset"),
            ("number_of_voters", len(core.voters), "of the quorum"),
            ("number_unknown_voter_connections", 0, "0: every voter's address is known"),
        ):
            yield GaugeMetricFamily(RAFT + name, text, float(value))
        observer_count = core.observer_count
        if observer_count is not None:
            name, text = RAFT + "number_of_observers", "who fetch"
            yield GaugeMetricFamily(name, text, float(observer_count))
            text = "1 while a change of the voters is not committed"
            is_changing = float(core.has_uncommitted_voters)
            yield GaugeMetricFamily(RAFT + "uncommitted_voter_change", text, is_changing)
        state = GaugeMetricFamily(
            RAFT + "current_state_info", "1 for the state this replica is in", labels=["state"]
        )
        for role in ROLES:
            state.add_metric([role], float(role == self._node.role))
        yield state

    def _causes(self) -> Iterator[Metric]:
        """Count the elections that this node saw, and the time without a leader, by cause."""
        seen, prefix = self._seen_elections, "kraftline_quorum_"
        for name, values, text in (
            ("elections", seen.counts, "new leaders of the quorum since the start, as seen here"),
            ("leaderless_ms", seen.leaderless_ms, "from noticed losses to the next leaders, ms"),
        ):
            family = CounterMetricFamily(prefix + name, text, labels=["cause"])
            for cause in Cause:
                family.add_metric([cause], float(values[cause]))
            yield family

    def _loader(self, now_ns: int) -> Iterator[Metric]:
        """Metrics of the metadata loader, of snapshots and of finalized features."""
        node, image = self._node, self._node.image
        size_bytes = node.newest_snapshot_bytes()
        age_ms = max(0, now_ns - self._recorder.snapshot_ns) // NS_PER_MS
        loader, emitter = "kafka_server_metadataloader_", "kafka_server_snapshotemitter_"
        for name, value, text in (
            (loader + "currentmetadataversion", image.metadata_version, "finalized level"),
            (
                loader + "currentcontrollerid",
                node_number(self._core.leader.leader_id),
                "the active controller, -1 when unknown",
            ),
            (
                loader + "handleloadsnapshotcount",
                self._state.snapshots_loaded,
                "snapshots loaded since the start",
            ),
            (loader + "avgidleratio", self._recorder.idle_ratio(now_ns), "of the loop, 0 to 1"),
            (emitter + "latestsnapshotgeneratedbytes", size_bytes, "newest snapshot, 0 without"),
            (
                emitter + "latestsnapshotgeneratedagems",
                age_ms,
                "since a snapshot was written here, or since the start, ms",
            ),
        ):
            yield GaugeMetricFamily(name, text, float(value))
        levels = GaugeMetricFamily(
            loader + "finalizedlevel", "of a feature", labels=["featureName"]
        )
        for feature, level in image.features.items():
            levels.add_metric([camel_case(feature)], float(level))
        yield levels

    def _broker(self) -> Iterator[Metric]:
        """Metrics of the broker: its metadata, its partitions, its state."""
        node = self._node
        counts = self._counts.newest()
        metadata = "kafka_server_broker_metadata_metrics_"
        manager = MANAGER
        for name, value, text in (
            (metadata + "last_applied_record_offset", node.committed_end - 1, "of the image"),
            (
                metadata + "last_applied_record_timestamp",
                node.image.provenance.timestamp_ms,
                "append time, ms",
            ),
            (metadata + "last_applied_record_lag_ms", self._lag_ms(), "its age, ms"),
            (metadata + "metadata_load_error_count", 0, "an error stops this node"),
            (metadata + "metadata_apply_error_count", 0, "an error stops this node"),
            (
                metadata + "ignored_static_voters",
                self._ignored_static_voters(),
                "1: the log names the voters",
            ),
            (manager + "leadercount", counts.led_here, "partitions led here"),
            (manager + "partitioncount", counts.hosted_here, "partitions hosted here"),
            (manager + "underreplicatedpartitions", counts.under_replicated_here, "led here"),
            (manager + "underminisrpartitioncount", counts.under_min_isr_here, "led here"),
            (manager + "atminisrpartitioncount", counts.at_min_isr_here, "led here"),
            (manager + "reassigningpartitions", counts.reassigning_here, "led here"),
            (
                "kafka_server_kafkaserver_brokerstate",
                3 if node.is_unfenced else 2,
                "3 running, 2 recovery or fenced",
            ),
        ):
            yield GaugeMetricFamily(name, text, float(value))


def registration_state(broker: Broker) -> int:
    """Kafka's number of a state: metadata/.../controller/metrics/BrokerRegistrationState.java."""
    if broker.fenced:
        return FENCED
    return CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else ACTIVE


def camel_case(feature: str) -> str:
    """`metadata.version` as `metadataVersion`: MetadataLoaderMetrics.sanitizeFeatureName."""
    first, *rest = feature.split(".")
    return first + "".join(word[:1].upper() + word[1:].lower() for word in rest)
