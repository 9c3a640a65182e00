"""A cluster that answers the commands from a point of a recorded metadata log.

Requests are answered by the node's own code (controller, queries, metadata cache) on the image that
Kafka's log leads to at an offset; only what is about the quorum, hence about no image, is given.
"""

import dataclasses
import random
from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from broker_publisher.responses import (
    ResponseContext,
    describe_cluster,
    describe_topic_partitions,
    metadata_response,
)
from cli.connect import UnreachableError
from kernel.serving.log_dirs import LogDirs
from metadata.apply import apply
from metadata.delta import MetadataDelta
from metadata.features import METADATA_VERSION_NAMES
from metadata.image import Image
from metadata.loader import Loader
from metadata.node_configs import NodeConfigs
from metadata.records import (
    AccessControlEntryRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionRecord,
    RemoveAccessControlEntryRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from metadata.schema import Record
from quorum_controller.config import ControllerConfig
from quorum_controller.configs.alter_configs import incremental_alter_configs_response
from quorum_controller.configs.broker_config_rules import broker_refusals
from quorum_controller.controller import Controller
from quorum_controller.handlers import HANDLERS
from quorum_controller.queries import QUERIES
from quorum_controller.query_context import QueryContext
from quorum_controller.result import ControllerRequest, RequestContext
from quorum_controller.security.authorization import AccessRules
from quorum_controller.services import QuorumFacts
from storage.vfs import Volume
from tests.metadata.golden_logs import log_batches
from wire.api_table import ListenerKind, api_versions_body, apis
from wire.messages import codec
from wire.types import NodeId

DESCRIBE_LOG_DIRS = 35
FOLDERS = {103: ("n103/log1", "n103/log")}
"""Log directories of the broker with two, in the order of their ids; others have one."""
METADATA, API_VERSIONS, DESCRIBE_QUORUM, DESCRIBE_CLUSTER, DESCRIBE_TOPICS = 3, 18, 55, 60, 75
ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 33, 44
RAFT_VOTERS = (80, 81)
SUPER = AccessRules(frozenset({"User:ANONYMOUS"}))
CLUSTER_IDS = {
    "static-4.3.1": "Z29sZGVuLXNoYXJlZC0wMQ",
    "dynamic-4.3.1": "Z29sZGVuLXNoYXJlZC0wMg",
    "kraft-upgrade-4.3.1": "Z29sZGVuLXNoYXJlZC0wMw",
    "single-4.3.1": "Z29sZGVuLXNoYXJlZC0wMw",
    "static-3.9.1": "Z29sZGVuLXNoYXJlZC0wNA",
}
LEADERS = {"static-4.3.1": 3}
"""The active controller while most commands ran; 1 in the other scenarios."""
PROPERTIES = {"static-4.3.1": {"unclean.leader.election.enable": "false"}}
FEATURES_4_3 = {
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "metadata.version": (7, max(METADATA_VERSION_NAMES)),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}
FEATURES_3_9 = {"kraft.version": (0, 1), "metadata.version": (1, 21)}


@cache
def states(scenario: str) -> dict[int, Image]:
    """The image after every batch of the scenario's log, by end offset; transactions whole.

    The log of `data-log` was not kept: its commands meet that of static-4.3.1 and one topic more.
    """
    if scenario == "data-log":
        return {o: _with_topic(i, "comp") for o, i in states("static-4.3.1").items() if i.brokers}
    loader = Loader()
    found = {0: loader.image}
    for batch in log_batches(scenario):
        loader.commit([batch])
        if loader.transaction_start is None:
            found[batch.end_offset] = loader.image
    return found


def _with_topic(image: Image, name: str) -> Image:
    records = [
        TopicRecord(name=name, topic_id=bytes(15) + b"\x09"),
        PartitionRecord(
            partition_id=0,
            topic_id=bytes(15) + b"\x09",
            replicas=(101,),
            isr=(101,),
            leader=101,
            leader_epoch=0,
            partition_epoch=0,
        ),
    ]
    for record in records:
        image = apply(image, record, image.provenance.end_offset, MetadataDelta())
    return image


DRAWN: dict[type[Record], dict[str, Any]] = {
    AccessControlEntryRecord: {"id": bytes(16)},
    RemoveAccessControlEntryRecord: {},
    TopicRecord: {"topic_id": bytes(16)},
    PartitionRecord: {"topic_id": bytes(16), "replicas": (), "isr": (), "leader": -1,
                      "directories": ()},
    UserScramCredentialRecord: {"salt": b"", "stored_key": b"", "server_key": b""},
}  # fmt: skip
"""Fields that are drawn by chance, by record; of a placement the number of replicas is kept."""


def settled(record: Record) -> Record:
    """A record without what is drawn by chance."""
    drawn = dict(DRAWN.get(type(record), {}))
    if isinstance(record, PartitionRecord):
        drawn["replicas"] = drawn["isr"] = (0,) * len(record.replicas)
    return replace(record, **drawn)


@cache
def changes_of(scenario: str) -> list[tuple[int, Record, bool]]:
    """(offset, record, whether it is the last of its batch) of the log, but for no-op records."""
    found = []
    for batch in log_batches("static-4.3.1" if scenario == "data-log" else scenario):
        changes = [
            (batch.base_offset + index, record)
            for index, record in enumerate(batch.records)
            if not isinstance(record, NoOpRecord)
        ]
        found += [(*change, change is changes[-1]) for change in changes]
    return found


def are_next(
    written: list[Record], scenario: str, offset: int, *, is_any_order: bool, is_placed: bool
) -> bool:
    """True if these records, and no others, are the next whole batches of Kafka's log.

    `is_placed`: the request names the replicas, so that they are compared too.
    """
    ours = [record for record in written if not isinstance(record, NoOpRecord)]
    following = [change for change in changes_of(scenario) if change[0] >= offset][: len(ours)]
    if len(following) < len(ours) or not (following and following[-1][2]):
        return False
    theirs = [record for _, record, _ in following]
    pairs = [[_compared(r, is_placed=is_placed) for r in records] for records in (ours, theirs)]
    left, right = (sorted(p, key=repr) for p in pairs) if is_any_order else pairs
    return left == right


def _compared(record: Record, *, is_placed: bool) -> Record:
    if not is_placed or not isinstance(record, PartitionRecord):
        return settled(record)
    return replace(settled(record), replicas=record.replicas, isr=record.isr, leader=record.leader)


class Reached(NamedTuple):
    """A node that listens at an address."""

    node_id: int
    cluster_id: str = CLUSTER_IDS["dynamic-4.3.1"]
    is_controller: bool = True
    is_described: bool = True
    """True if the caller may describe its configs."""
    is_known: bool = True
    """True if the caller may know the cluster."""
    kraft_versions: tuple[int, int] | None = (0, 1)
    """Range that it supports; None: it does not say."""


class RecordedCluster:
    """`cli.connect.Api` at one offset of a scenario."""

    def __init__(
        self,
        scenario: str,
        offset: int,
        *,
        is_controllers: bool = False,
        kraft_version: int = 0,
        quorum: Any = None,
        voter_change: Any = None,
    ) -> None:
        self.scenario = scenario
        self.offset = offset
        self.image = states(scenario)[offset]
        self.is_controllers = is_controllers
        self.kraft_version = kraft_version
        self.quorum = quorum
        self.voter_change = voter_change
        self.written: list[Record] = []
        """Records of the requests that were taken."""
        self.asked: list[Any] = []
        """Requests to the quorum: it was described, or a voter of it changed."""
        self.reached: dict[tuple[str, int], Reached] = {}
        """Nodes of other addresses than the cluster's."""
        self.properties = PROPERTIES.get(scenario, {})
        self.features = FEATURES_3_9 if scenario.endswith("3.9.1") else FEATURES_4_3

    def opened(self, _options: Any) -> Any:
        """Connection for a command."""
        return nullcontext(self)

    def supports(self, api_key: int) -> bool:
        if api_key == DESCRIBE_LOG_DIRS:
            return not self.is_controllers
        if api_key in RAFT_VOTERS:
            return self.voter_change is not None
        return not (api_key == METADATA and self.is_controllers)

    def call(self, api_key: int, body: Any, node: int | None = None) -> Any:
        assert self.supports(api_key), f"{api_key=}"
        listener = "CONTROLLER" if self.is_controllers else "PLAINTEXT"
        kind = 2 if self.is_controllers else 1
        leader = LEADERS.get(self.scenario, 1)
        context = ResponseContext(CLUSTER_IDS.get(self.scenario, "x"), listener, leader)
        if api_key in (DESCRIBE_QUORUM, *RAFT_VOTERS):
            self.asked.append(body)
        answers = {
            METADATA: lambda: metadata_response(self.image, body, context),
            API_VERSIONS: self._api_versions,
            DESCRIBE_QUORUM: lambda: self.quorum,
            DESCRIBE_CLUSTER: lambda: describe_cluster(self.image, body, context, kind),
            DESCRIBE_TOPICS: lambda: describe_topic_partitions(self.image, body, listener),
            DESCRIBE_LOG_DIRS: lambda: self._log_dirs(body, node),
        } | dict.fromkeys(RAFT_VOTERS, lambda: self.voter_change)
        if api_key in answers:
            return answers[api_key]()
        if api_key in QUERIES:
            return self._query(api_key, body, node)
        refused = self._refused_by_broker(api_key, body, node)
        return self._submit(api_key, body) if refused is None else refused

    def ask(self, address: tuple[str, int], api_key: int, body: Any) -> Any:
        if address not in self.reached:
            raise UnreachableError(f"{address[0]}:{address[1]}: Connection refused")
        node = self.reached[address]
        if api_key == API_VERSIONS:
            return self._api_versions(node.kraft_versions)
        context = ResponseContext(node.cluster_id, "CONTROLLER", 1)
        if api_key == DESCRIBE_CLUSTER:
            answer = describe_cluster(self.image, body, context, 2 if node.is_controller else 1)
            return (
                answer
                if node.is_known
                else dataclasses.replace(answer, error_code=31, cluster_id="")
            )
        access = SUPER if node.is_described else AccessRules(frozenset())
        return self._query(api_key, body, node.node_id, access)

    def _log_dirs(self, body: Any, node: int | None) -> Any:
        assert node is not None, "each broker knows its own"
        folders = FOLDERS.get(node, (f"n{node}/log",))
        ids = self.image.brokers[NodeId(node)].log_dirs
        log_dirs = LogDirs(
            sorted(folders),
            dict(zip(ids, folders, strict=True)),
            lambda path: Volume(total_bytes=1 << 40, usable_bytes=1 << 39),
            dict,
        )
        return log_dirs.described(self.image, NodeId(node), body)

    def _api_versions(self, kraft_versions: tuple[int, int] | None = (0, 1)) -> Any:
        supported = {n: r for n, r in self.features.items() if n != "kraft.version"}
        if kraft_versions is not None:
            supported["kraft.version"] = kraft_versions
        finalized = {name: level for name, level in self.image.features.items() if level}
        if self.kraft_version:
            finalized["kraft.version"] = self.kraft_version
        kind = ListenerKind.CONTROLLER if self.is_controllers else ListenerKind.BROKER
        table = apis(kind, [API_VERSIONS])
        return api_versions_body(table, supported, finalized, self.offset - 1)

    def _query(self, key: int, body: Any, node: int | None, access: AccessRules = SUPER) -> Any:
        context = QueryContext(
            node_id=node or (1 if self.is_controllers else 101),
            is_broker=not self.is_controllers,
            api_version=4,
            properties=self.properties,
            wall_ms=0,
            access=access,
        )
        return QUERIES[key].answer(self.image, body, context)

    def _refused_by_broker(self, key: int, body: Any, node: int | None) -> Any:
        """A broker judges configs of brokers itself before it passes the rest on."""
        if self.is_controllers or key not in (ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS):
            return None
        configs = NodeConfigs(self.image, node or 101, self.properties)
        refusals = broker_refusals(key, body, self.image, configs)
        if None in refusals:
            return None
        return incremental_alter_configs_response(body, refusals)

    def _submit(self, api_key: int, body: Any) -> Any:
        assert api_key in HANDLERS, f"{api_key=}"
        config = ControllerConfig(
            cluster_id="recorded",
            node_id=LEADERS.get(self.scenario, 1),
            bootstrap_records=(FeatureLevelRecord(name="metadata.version", feature_level=21),),
            properties=self.properties,
            supported_features=self.features,
            access=SUPER,
        )
        rng = random.Random(1)
        controller = Controller(config, rng, lambda: rng.randbytes(16))
        controller.activate(9, self.offset, self.image, 1_000, 0)
        controller.quorum = QuorumFacts(kraft_version=self.kraft_version)
        newest = codec.SCHEMAS[api_key].newest_version
        request = ControllerRequest(
            api_key=api_key,
            body=body,
            reply_token=1,
            context=RequestContext(api_version=newest, is_forwarded=True),
        )
        output = controller.submit(request, 1_000, 0)
        self.written += [r for proposal in output.proposals for r in proposal.records]
        _, late = controller.commit(controller.next_offset)
        answers = [a.body for a in (*output.answers, *late.answers) if a.reply_token == 1]
        assert len(answers) == 1, f"{answers=}"
        return answers[0]
