"""A whole broker in memory as the cluster of a command: what it answers is what a node would.

Metadata, DescribeCluster and ApiVersions are those of a node too, by the functions of its kernel.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from broker.effects import Ask, SendParts
from broker.events import Answered, FramesReceived, TimeAdvanced
from broker_publisher.responses import ResponseContext, describe_cluster, metadata_response
from coordinator.records.kinds import CONSUMER_OFFSETS, TRANSACTION_STATE
from metadata.records import (
    FeatureLevelRecord,
    RegisterBrokerRecord,
    RegisteredEndpoint,
    UnfenceBrokerRecord,
)
from quorum_controller.bodies import NO_TIME
from tests.broker.brokers import Driven, response
from tests.broker.fronts import LISTENER
from tests.cli.records.broker import Time
from wire.api_keys import (
    ALLOCATE_PRODUCER_IDS,
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    INIT_PRODUCER_ID,
    METADATA,
)
from wire.api_table import SCHEMAS, ListenerKind, api_versions_body, apis
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import BrokerEpoch, NodeId, TopicId

CONTEXT = ResponseContext("recorded", LISTENER, NodeId(1))
STEPS_MAX = 2_000
MAXIMA = {INIT_PRODUCER_ID: 5}


class StepTime(Time):
    """The clock of the commands; the broker's follows it."""

    def wall_ms(self) -> int:
        return 1_001_000 + self.at_ms


class RealBroker:
    """Broker 1, which leads everything and coordinates all ids."""

    def __init__(
        self, transaction_version: int = 2, *, verifies: bool = True, **topics: int
    ) -> None:
        self.clock = StepTime()
        self.driven = Driven()
        log = self.driven.metadata
        self.driven.step()
        log.write(
            RegisterBrokerRecord(
                broker_id=NodeId(1),
                incarnation_id=bytes(15) + b"\1",
                broker_epoch=BrokerEpoch(0),
                log_dirs=tuple(self.driven.directory_ids.values()),
                end_points=(RegisteredEndpoint(name=LISTENER, host="h", port=1),),
            ),
            UnfenceBrokerRecord(id=NodeId(1), epoch=BrokerEpoch(0)),
            FeatureLevelRecord(name="transaction.version", feature_level=transaction_version),
        )
        if not verifies:
            log.broker_config("transaction.partition.verification.enable", "false")
        internal = {TRANSACTION_STATE: 1, CONSUMER_OFFSETS: 1}
        for index, (name, count) in enumerate({**topics, **internal}.items()):
            log.topic(name, TopicId(bytes(15) + bytes([index + 1])), partitions=count)
        self.driven.publish()
        self.driven.connect()
        self.asked: list[tuple[int, Any]] = []
        self._next_block = 70
        self._run()

    # -- as cli.records.clients.records_api.RecordsApi ----------------------------------------

    @contextlib.contextmanager
    def opened(self, _options: Any) -> Iterator["RealBroker"]:
        yield self

    def supports(self, api_key: int) -> bool:
        return self.version_of(api_key, 1) >= 0

    def version_of(self, api_key: int, node: int) -> int:
        assert node == 1
        return MAXIMA.get(api_key, SCHEMAS[api_key].newest_version)

    def send(self, api_key: int, body: Any, node: int) -> None:
        raise AssertionError("nothing here has acks 0")

    def call(self, api_key: int, body: Any, node: int | None = None) -> Any:
        assert node in (None, 1)
        self.asked.append((api_key, body))
        image = self.driven.metadata.image
        if api_key == METADATA:
            return metadata_response(image, body, CONTEXT)
        if api_key == DESCRIBE_CLUSTER:
            return describe_cluster(image, body, CONTEXT, 1)
        if api_key == API_VERSIONS:
            table = apis(ListenerKind.BROKER, [API_VERSIONS])
            return api_versions_body(table, {}, dict(image.features), 1)
        version = self.version_of(api_key, 1)
        frame = bytearray(codec.encode_request(api_key, version, 5, "cli", body))
        (parts,) = self._run(FramesReceived(1, [frame]))
        return response(api_key, version, parts.parts)

    def _run(self, *events: Any) -> list[SendParts]:
        """Step until there is an answer, or nothing is left to do at this time."""
        self.driven.now_ms = max(self.driven.now_ms, 1_000 + self.clock.at_ms)
        sent: list[SendParts] = []
        for _ in range(STEPS_MAX):
            effects = self.driven.step(*events)
            events = tuple(
                Answered(ask.token, self._block() if ask.api_key == ALLOCATE_PRODUCER_IDS else None)
                for ask in effects
                if isinstance(ask, Ask)
            )
            sent += [each for each in effects if isinstance(each, SendParts)]
            if events:
                continue
            if sent:
                return sent
            due_ms = self.driven.broker.next_deadline_ms()
            if due_ms > self.driven.now_ms + 200:
                return sent
            self.driven.now_ms = max(self.driven.now_ms, due_ms)
            self.clock.at_ms = self.driven.now_ms - 1_000
            events = (TimeAdvanced(),)
        raise AssertionError("no answer")

    def _block(self) -> Any:
        new = codec.newest(ALLOCATE_PRODUCER_IDS, "response")
        self._next_block += 10
        return new.AllocateProducerIdsResponse(
            throttle_time=NO_TIME,
            error_code=ErrorCode.none,
            producer_id_start=self._next_block - 10,
            producer_id_len=10,
        )

    # -- for tests --------------------------------------------------------------------------------

    def pass_ms(self, ms: int) -> None:
        """Let time go by."""
        self.clock.at_ms += ms
        self._run(TimeAdvanced())
